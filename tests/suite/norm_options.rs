//! What [`NormOptions`] change: parameters of each head, gamma less 1, the output's type.

use crate::{
    compare::{Kind, Report, Verdict, compare, same_bits},
    deliver::deliver,
    device,
    op::has_type,
    oracle::{self, Exact, Expected},
    random::Random,
    values::Values,
};
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_fused::{
    FusedError, NormOptions, add_layer_norm, add_rms_norm, layer_norm, rms_norm, try_layer_norm,
    try_rms_norm,
};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Norm {
    Rms,
    Layer,
}

/// A call on rows of `shape`'s last `axes` dimensions with parameters of its last `K`.
struct Case<const K: usize> {
    norm: Norm,
    x: Values,
    gamma: Option<Values>,
    beta: Option<Values>,
    dy: Values,
    options: NormOptions,
}

struct Outcome {
    y: TensorData,
    dx: Option<TensorData>,
    dgamma: Option<TensorData>,
    dbeta: Option<TensorData>,
}

impl<const K: usize> Case<K> {
    /// `types` are those of x, the output, and gamma and beta.
    fn random(
        norm: Norm,
        shape: [usize; 4],
        types: [DType; 3],
        options: NormOptions,
        random: &mut Random,
    ) -> Self {
        let [x, y, parameters] = types;
        let of = &shape[4 - K..];
        let center = if options.zero_centered_gamma { 0.0 } else { 1.0 };
        let beta = (norm == Norm::Layer).then(|| Values::normal(of, parameters, random));
        Self {
            norm,
            x: Values::normal(&shape, x, random),
            gamma: Some(Values::of(of, parameters, |_| center + 0.5 * random.normal())),
            beta,
            dy: Values::normal(&shape, y, random),
            options: NormOptions { dtype: Some(y.into()), ..options },
        }
    }

    fn forward<const D: usize>(
        &self,
        x: Tensor<D>,
        gamma: Option<Tensor<K>>,
        beta: Option<Tensor<K>>,
    ) -> Tensor<D> {
        match self.norm {
            Norm::Rms => rms_norm(x, gamma, self.options),
            Norm::Layer => layer_norm(x, gamma, beta, self.options),
        }
    }

    /// Runs it both ways; x is a view of a tensor that lies in memory in another order, if `viewed`.
    fn run(&self, viewed: bool, device: &Device) -> Outcome {
        let mut x = self.x.tensor::<4>(device);
        if viewed {
            // Times one is every float itself; the swapped dimensions are copied.
            x = (x.swap_dims(0, 2) * 1.0).swap_dims(0, 2);
        }
        let x = x.autodiff().require_grad();
        let tracked = |values: &Option<Values>| {
            values.as_ref().map(|v| v.tensor::<K>(device).autodiff().require_grad())
        };
        let (gamma, beta) = (tracked(&self.gamma), tracked(&self.beta));
        let y = self.forward(x.clone(), gamma.clone(), beta.clone());
        let gradients = deliver(y.clone(), self.dy.tensor(device)).backward();
        let gradient = |p: &Option<Tensor<K>>| Some(p.as_ref()?.grad(&gradients)?.into_data());
        Outcome {
            dx: x.grad(&gradients).map(Tensor::into_data),
            dgamma: gradient(&gamma),
            dbeta: gradient(&beta),
            y: y.into_data(),
        }
    }

    /// The oracle's answer for each head by itself.
    fn expected(&self) -> Expected {
        let axes = self.options.axes.unwrap_or(K);
        let shape = &self.x.shape;
        let columns: usize = shape[4 - axes..].iter().product();
        let heads: usize = shape[4 - K..4 - axes].iter().product();
        let rows = self.x.data.len() / columns;
        let offset = if self.options.zero_centered_gamma { 1.0 } else { 0.0 };
        let part = |p: &Option<Values>, head: usize, absent: f64, offset: f64| match p {
            Some(p) => p.data[head * columns..(head + 1) * columns]
                .iter()
                .map(|value| value + offset)
                .collect(),
            None => vec![absent; columns],
        };
        let mut whole = Expected::default();
        for exact in [&mut whole.y, &mut whole.dx] {
            exact.values.resize(rows * columns, 0.0);
            exact.scales.resize(rows * columns, 0.0);
        }
        whole.parameters.resize_with(2, Exact::default);
        for head in 0..heads {
            let own: Vec<usize> = (head..rows).step_by(heads).collect();
            let pick = |from: &Values| -> Vec<f64> {
                let rows = own.iter().map(|row| &from.data[row * columns..(row + 1) * columns]);
                rows.flatten().copied().collect()
            };
            let (x, dy) = (pick(&self.x), pick(&self.dy));
            let gamma = part(&self.gamma, head, 1.0, offset);
            let found = match self.norm {
                Norm::Rms => oracle::rms_norm(&x, &gamma, &dy, self.options.epsilon),
                Norm::Layer => {
                    let beta = part(&self.beta, head, 0.0, 0.0);
                    oracle::layer_norm(&x, &gamma, &beta, &dy, self.options.epsilon)
                }
            };
            for (from, to) in [(&found.y, &mut whole.y), (&found.dx, &mut whole.dx)] {
                for (i, row) in own.iter().enumerate() {
                    let (from_row, to_row) = (i * columns, row * columns);
                    for (a, b) in [(&from.values, &mut to.values), (&from.scales, &mut to.scales)] {
                        b[to_row..to_row + columns]
                            .copy_from_slice(&a[from_row..from_row + columns]);
                    }
                }
            }
            for (found, whole) in found.parameters.iter().zip(&mut whole.parameters) {
                whole.values.extend(&found.values);
                whole.scales.extend(&found.scales);
            }
        }
        whole
    }

    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        let expected = self.expected();
        let accumulator = if self.x.dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let mut verdicts = vec![has_type("y", &outcome.y, self.dy.dtype)];
        let [dgamma, dbeta] = [(&self.gamma, &outcome.dgamma), (&self.beta, &outcome.dbeta)];
        for (name, kind, expected, found, dtype) in [
            ("y", Kind::Row, &expected.y, &Some(outcome.y.clone()), Some(self.dy.dtype)),
            ("dx", Kind::Row, &expected.dx, &outcome.dx, Some(self.x.dtype)),
            (
                "dgamma",
                Kind::RowSum,
                &expected.parameters[0],
                dgamma.1,
                dgamma.0.as_ref().map(|p| p.dtype),
            ),
            (
                "dbeta",
                Kind::RowSum,
                &expected.parameters[1],
                dbeta.1,
                dbeta.0.as_ref().map(|p| p.dtype),
            ),
        ] {
            match (found, dtype) {
                (Some(found), Some(dtype)) => {
                    verdicts.push(compare(name, kind, expected, found, accumulator));
                    verdicts.push(has_type(name, found, dtype));
                }
                (None, None) => {}
                _ => verdicts.push(Err(format!("{name} is there or not as it should not be"))),
            }
        }
        verdicts
    }

    fn name(&self) -> String {
        let parameters = self.gamma.as_ref().map(|p| (&p.shape, p.dtype));
        let Self { norm, x, options, .. } = self;
        format!("{norm:?} {:?} {:?}, gamma {parameters:?}, {options:?}", x.shape, x.dtype)
    }

    fn check(&self, device: &Device, report: &mut Report) {
        let outcome = self.run(false, device);
        report.add(self.name(), self.verdicts(&outcome));
        if device::keeps_bits() {
            let viewed = self.run(true, device);
            let both = [
                (Some(&outcome.y), Some(&viewed.y)),
                (outcome.dx.as_ref(), viewed.dx.as_ref()),
                (outcome.dgamma.as_ref(), viewed.dgamma.as_ref()),
                (outcome.dbeta.as_ref(), viewed.dbeta.as_ref()),
            ];
            let pairs = both.into_iter().filter_map(|(a, b)| Some((a?, b?)));
            let verdicts = pairs.map(|(a, b)| same_bits("of a view", a, b)).collect::<Vec<_>>();
            report.add(format!("{} viewed", self.name()), verdicts);
        }
    }
}

fn options(axes: Option<usize>, zero_centered_gamma: bool) -> NormOptions {
    NormOptions { axes, zero_centered_gamma, ..NormOptions::default() }
}

/// Rows of some kernels' kinds: held, many of a cube, in chunks, of odd lengths; heads that share cubes or don't.
const SHAPES: [[usize; 4]; 6] =
    [[2, 9, 4, 64], [1, 3, 5, 33], [70, 3, 2, 8], [2, 1, 3, 4096], [1, 2, 2, 40_000], [0, 2, 3, 8]];
/// As many of them as a slow device is asked for.
const FEW: usize = 3;

fn shapes() -> &'static [[usize; 4]] {
    if device::is_fast() { &SHAPES } else { &SHAPES[..FEW] }
}

#[test]
fn each_head_has_its_own_parameters() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("heads"), Report::default());
    for norm in [Norm::Rms, Norm::Layer] {
        for &shape in shapes() {
            for dtype in [DType::F32, DType::BF16] {
                if !device.supports_dtype(dtype) {
                    continue;
                }
                let types = [dtype, dtype, DType::F32];
                let by_head = options(Some(1), false);
                Case::<2>::random(norm, shape, types, by_head, &mut random)
                    .check(&device, &mut report);
                // Heads of two dimensions, rows of two.
                Case::<3>::random(norm, shape, types, by_head, &mut random)
                    .check(&device, &mut report);
                Case::<3>::random(norm, shape, types, options(Some(2), false), &mut random)
                    .check(&device, &mut report);
            }
        }
    }
    report.finish();
}

#[test]
fn gamma_less_one() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("gamma_less_one"), Report::default());
    for norm in [Norm::Rms, Norm::Layer] {
        for &shape in shapes() {
            let types = [DType::F32; 3];
            Case::<1>::random(norm, shape, types, options(None, true), &mut random)
                .check(&device, &mut report);
            Case::<2>::random(norm, shape, types, options(Some(1), true), &mut random)
                .check(&device, &mut report);
            let mut without =
                Case::<1>::random(norm, shape, types, options(None, true), &mut random);
            // There is nothing to add 1 to.
            without.gamma = None;
            without.options.zero_centered_gamma = false;
            let plain = without.run(false, &device);
            without.options.zero_centered_gamma = true;
            let zero = without.run(false, &device);
            report.add(without.name(), [same_bits("y", &plain.y, &zero.y)]);
        }
    }
    report.finish();
}

/// Heads of every number, also none, rows of every length, few rows and many.
#[test]
fn heads_of_any_shape() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("heads_of_any_shape"), Report::default());
    let dtypes = device::dtypes(&device);
    for i in 0..if device::is_fast() { 200 } else { 40 } {
        let mut size = |most: usize| 1 + random.below(most);
        let mut shape = [size(3), size(40), size(9), size(50)];
        if i % 8 == 0 {
            shape[random.below(3)] = 0;
        }
        if i % 4 == 1 {
            shape[3] = [1, 8, 16, 64][random.below(4)];
        }
        let norm = [Norm::Rms, Norm::Layer][i % 2];
        // Few kernels where they take seconds to compile.
        let few = if device::is_fast() { dtypes.len() } else { 1 };
        let types = [(); 3].map(|()| dtypes[random.below(few)]);
        let options = options(Some(1), random.below(2) == 0);
        let mut case = Case::<3>::random(norm, shape, types, options, &mut random);
        if random.below(4) == 0 {
            case.gamma = None;
        }
        if random.below(4) == 0 {
            case.beta = None;
        }
        case.check(&device, &mut report);
    }
    report.finish();
}

/// Each by itself: no other gradient is asked of the kernel.
#[test]
fn only_what_is_tracked() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("only_what_is_tracked"), Report::default());
    for norm in [Norm::Rms, Norm::Layer] {
        let shape = [2, 9, 4, 64];
        let case =
            Case::<2>::random(norm, shape, [DType::F32; 3], options(Some(1), true), &mut random);
        let all = case.run(false, &device);
        for which in 0..if norm == Norm::Layer { 3 } else { 2 } {
            let x = case.x.tensor::<4>(&device).autodiff();
            let x = if which == 0 { x.require_grad() } else { x };
            let parameter = |values: &Option<Values>, tracked: bool| {
                let parameter = values.as_ref()?.tensor::<2>(&device).autodiff();
                Some(if tracked { parameter.require_grad() } else { parameter })
            };
            let gamma = parameter(&case.gamma, which == 1);
            let beta = parameter(&case.beta, which == 2);
            let y = case.forward(x.clone(), gamma.clone(), beta.clone());
            let gradients = deliver(y, case.dy.tensor(&device)).backward();
            let gradient = |p: &Option<Tensor<2>>| Some(p.as_ref()?.grad(&gradients)?.into_data());
            let found =
                [x.grad(&gradients).map(Tensor::into_data), gradient(&gamma), gradient(&beta)];
            let expected = [&all.dx, &all.dgamma, &all.dbeta];
            for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
                let verdict = match (found, expected) {
                    (Some(found), Some(expected)) if i == which => {
                        same_bits("gradient", found, expected)
                    }
                    (None, _) if i != which => Ok(0.0),
                    _ => Err(format!("gradient {i} of {which} is there or not")),
                };
                report.add(case.name(), [verdict]);
            }
        }
    }
    report.finish();
}

/// From each type to each other.
#[test]
fn the_output_has_the_type_asked_for() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("output_type"), Report::default());
    let dtypes = device::dtypes(&device);
    for norm in [Norm::Rms, Norm::Layer] {
        for &x in &dtypes {
            for &y in dtypes.iter().filter(|y| **y != x) {
                let types = [x, y, DType::F32];
                let shapes = if device::is_fast() { shapes() } else { &[[2, 3, 4, 64]] };
                for &shape in shapes {
                    Case::<1>::random(norm, shape, types, options(None, false), &mut random)
                        .check(&device, &mut report);
                }
            }
        }
    }
    report.finish();
}

/// An output of another type is never written over the input, whose values are still there.
#[test]
fn inputs_are_left_alone() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("inputs_are_left_alone");
    let Some(narrow) = device::dtypes(&device).into_iter().find(|dtype| dtype.size() == 2) else {
        return;
    };
    let values = Values::normal(&[8, 64], DType::F32, &mut random);
    let options = NormOptions { dtype: Some(narrow.into()), ..NormOptions::default() };
    let x = values.tensor::<2>(&device);
    let kept = x.clone();
    let y = rms_norm(x, None::<Tensor<1>>, options).into_data();
    assert_eq!(y.dtype(), narrow);
    assert_eq!(kept.into_data(), values.data());
}

/// Norms of a sum take them as those of one input do.
#[test]
fn norms_of_a_sum() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("norms_of_a_sum"), Report::default());
    let narrow = device::dtypes(&device).into_iter().find(|dtype| dtype.size() == 2);
    let dtype = narrow.map(Into::into);
    let options = NormOptions { dtype, ..options(Some(1), true) };
    for norm in [Norm::Rms, Norm::Layer] {
        let shape = [2, 9, 4, 64];
        let types = [DType::F32, narrow.unwrap_or(DType::F32), DType::F32];
        let case = Case::<2>::random(norm, shape, types, options, &mut random);
        let plain = case.run(false, &device);
        let residual = Values::of(&shape, DType::F32, |_| 0.0);
        let [x, residual] = [&case.x, &residual].map(|v| v.tensor::<4>(&device).autodiff());
        let x = x.require_grad();
        let [gamma, beta] = [&case.gamma, &case.beta]
            .map(|p| p.as_ref().map(|p| p.tensor::<2>(&device).autodiff().require_grad()));
        let (y, sum) = match norm {
            Norm::Rms => add_rms_norm(x.clone(), residual, gamma.clone(), case.options),
            Norm::Layer => {
                add_layer_norm(x.clone(), residual, gamma.clone(), beta.clone(), case.options)
            }
        };
        let gradients = deliver(y.clone(), case.dy.tensor(&device)).backward();
        let gradient = |p: &Option<Tensor<2>>| Some(p.as_ref()?.grad(&gradients)?.into_data());
        assert_eq!(sum.into_data(), case.x.data());
        let found = Outcome {
            dx: x.grad(&gradients).map(Tensor::into_data),
            dgamma: gradient(&gamma),
            dbeta: gradient(&beta),
            y: y.into_data(),
        };
        report.add(case.name(), case.verdicts(&found));
        if device::keeps_bits() && device::keeps_order() {
            report.add(case.name(), [same_bits("y of a sum", &plain.y, &found.y)]);
        }
    }
    report.finish();
}

#[test]
fn axes_are_among_those_of_parameters() {
    let Some(device) = device::open() else { return };
    let x = Tensor::<3>::ones([2, 3, 4], &device);
    let gamma = Tensor::<2>::ones([3, 4], &device);
    for found in [0, 3] {
        let options = NormOptions { axes: Some(found), ..NormOptions::default() };
        let error = try_rms_norm(x.clone(), Some(gamma.clone()), options).unwrap_err();
        assert_eq!(error, FusedError::Axes { op: "rms_norm", max: 2, found });
        let message = format!("layer_norm: `axes` must be from 1 to 2, found {found}");
        let error = try_layer_norm(x.clone(), Some(gamma.clone()), None, options).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn the_output_has_a_type_that_the_device_computes_in() {
    let Some(device) = device::open() else { return };
    let x = Tensor::<2>::ones([2, 3], &device);
    for dtype in [DType::F64, DType::Flex32, DType::F16, DType::BF16] {
        let options = NormOptions { dtype: Some(dtype.into()), ..NormOptions::default() };
        let found = try_rms_norm(x.clone(), None::<Tensor<1>>, options);
        let fits = device.supports_dtype(dtype);
        let refused = matches!(
            found,
            Err(FusedError::Unsupported { argument: "dtype", found, .. }) if found == dtype
        );
        assert!(fits != refused, "{dtype:?} on {}: {found:?}", device::name());
    }
}

/// Squares that f32 does not hold, and epsilons among them.
#[test]
fn tiny_epsilons_in_f64() {
    let Some(device) = device::open() else { return };
    if !device::dtypes(&device).contains(&DType::F64) {
        return println!("skipped: {} does not compute in F64", device::name());
    }
    let (mut random, mut report) = (Random::of("tiny_epsilons_in_f64"), Report::default());
    for norm in [Norm::Rms, Norm::Layer] {
        for epsilon in [1e-60, 1e-46, 1e-44] {
            let mut case = Case::<1>::random(
                norm,
                [1, 2, 3, 32],
                [DType::F64; 3],
                epsilon.into(),
                &mut random,
            );
            case.x.data.iter_mut().for_each(|value| *value *= 1e-25);
            case.check(&device, &mut report);
        }
    }
    report.finish();
}
