//! What [`NormOptions`] change: parameters of each head, gamma less 1, the output's type.

mod case;

use crate::{
    compare::{Report, same_bits},
    device, pairs,
    random::Random,
    values::Values,
};
use burn::tensor::{DType, Tensor};
use burn_fused::{
    FusedError, NormOptions, add_layer_norm, add_rms_norm, rms_norm, try_layer_norm, try_rms_norm,
};
use case::{Case, Norm, Outcome};

fn options(axes: Option<usize>, zero_centered_gamma: bool) -> NormOptions {
    NormOptions { axes, zero_centered_gamma, ..NormOptions::default() }
}

const NORMS: [Norm; 2] = [Norm::Rms, Norm::Layer];

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
    let dtypes: Vec<_> = [DType::F32, DType::BF16]
        .into_iter()
        .filter(|dtype| device.supports_dtype(*dtype))
        .collect();
    let sizes = [NORMS.len(), shapes().len(), dtypes.len(), 3];
    for [norm, shape, dtype, heads] in pairs::combinations(sizes, &mut random) {
        let (norm, shape, dtype) = (NORMS[norm], shapes()[shape], dtypes[dtype]);
        let types = [dtype, dtype, DType::F32];
        let (one, two) = (options(Some(1), false), options(Some(2), false));
        let (device, report) = (&device, &mut report);
        match heads {
            0 => Case::<2>::random(norm, shape, types, one, &mut random).check(device, report),
            // Heads of two dimensions, rows of two.
            1 => Case::<3>::random(norm, shape, types, one, &mut random).check(device, report),
            _ => Case::<3>::random(norm, shape, types, two, &mut random).check(device, report),
        }
    }
    report.finish();
}

#[test]
fn gamma_less_one() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("gamma_less_one"), Report::default());
    for norm in NORMS {
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
            let plain = without.run(&device);
            without.options.zero_centered_gamma = true;
            let zero = without.run(&device);
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
        let norm = NORMS[i % 2];
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
    for norm in NORMS {
        let shape = [2, 9, 4, 64];
        let case =
            Case::<2>::random(norm, shape, [DType::F32; 3], options(Some(1), true), &mut random);
        let mut all = case.run(&device);
        for which in 0..if norm == Norm::Layer { 3 } else { 2 } {
            let found = case.run_tracked([0, 1, 2].map(|i| i == which), &device);
            let mut alone = Outcome { y: found.y.clone(), gradients: [None, None, None] };
            alone.gradients[which] = all.gradients[which].take();
            report.add(case.name(), found.same_gradients(&alone));
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
    let shapes = if device::is_fast() { shapes() } else { &[[2, 3, 4, 64]] };
    let sizes = [NORMS.len(), dtypes.len(), dtypes.len(), shapes.len()];
    for [norm, x, y, shape] in pairs::combinations(sizes, &mut random) {
        let types = [dtypes[x], dtypes[y], DType::F32];
        let options = options(None, false);
        Case::<1>::random(NORMS[norm], shapes[shape], types, options, &mut random)
            .check(&device, &mut report);
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
    for norm in NORMS {
        let shape = [2, 9, 4, 64];
        let types = [DType::F32, narrow.unwrap_or(DType::F32), DType::F32];
        let case = Case::<2>::random(norm, shape, types, options, &mut random);
        let plain = case.run(&device);
        let x = case.x.tensor(&device);
        let residual = x.zeros_like().autodiff();
        let found = case.run_with(x, [true; 3], |x, gamma, beta| {
            let (y, sum) = match norm {
                Norm::Rms => add_rms_norm(x, residual, gamma, case.options),
                Norm::Layer => add_layer_norm(x, residual, gamma, beta, case.options),
            };
            assert_eq!(sum.into_data(), case.x.data());
            y
        });
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
    for norm in NORMS {
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
