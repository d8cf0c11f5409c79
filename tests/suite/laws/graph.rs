//! The op as a node among others: who gets a gradient, and what it adds up to.

use crate::{
    compare::{Kind, Report, compare},
    deliver::deliver,
    device,
    op::{Data, Op, Outcome, differentiate, has_type},
    oracle::Exact,
    random::Random,
    values::{Values, exact},
};
use burn::tensor::{DType, Device, Tensor, TensorData};

fn input<O: Op>(random: &mut Random) -> Data {
    Data::random::<O>(&[37, 257], 1, DType::F32, Some(DType::F32), random)
}

/// Each subset of the leaves tracked: those get the right gradient and the others none.
pub fn only_what_is_tracked<O: Op>(op: O) {
    subsets(op, "only_what_is_tracked", |device| device.clone().autodiff());
}

/// The same where what is untracked was made on a device without autodiff, as batches are.
pub fn inputs_outside_autodiff<O: Op>(op: O) {
    subsets(op, "inputs_outside_autodiff", Clone::clone);
}

fn subsets<O: Op>(op: O, test: &str, untracked: impl Fn(&Device) -> Device) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of(test), Report::default());
    for subset in 0..1 << (1 + O::PARAMETERS.len()) {
        let data = input::<O>(&mut random);
        let untracked = untracked(&device);
        check_tracked::<O, 2, 1>(op, &data, subset, &device, &untracked, &mut report);
    }
    report.finish();
}

/// A run of which the leaves in the bits of `subset`, x the lowest, are tracked, and the others lie
/// on the device `untracked`.
pub fn check_tracked<O: Op, const D: usize, const K: usize>(
    op: O,
    data: &Data,
    subset: usize,
    device: &Device,
    untracked: &Device,
    report: &mut Report,
) {
    let case = format!("{} {data}, tracked {subset:b}", O::NAME);
    let tracks = |leaf: usize| subset & (1 << leaf) != 0;
    let on = |leaf| if tracks(leaf) { device.clone().autodiff() } else { untracked.clone() };
    let x = data.x.tensor::<D>(&on(0)).set_require_grad(tracks(0));
    let leaf = |(i, p): (usize, &Option<Values>)| {
        Some(p.as_ref()?.tensor(&on(i + 1)).set_require_grad(tracks(i + 1)))
    };
    let parameters: Vec<Option<Tensor<K>>> = data.parameters.iter().enumerate().map(leaf).collect();
    let y = op.forward(x.clone(), parameters.clone());
    let found = y.clone().into_data();
    let y_exact = exact(&found);
    let expected = data.expected(op, (!y_exact.is_empty()).then_some(&y_exact));
    let accumulator = data.accumulator();
    report.add(&case, [compare("y", Kind::Row, &expected.y, &found, accumulator)]);
    if subset == 0 {
        assert!(!y.is_tracked(), "nothing is tracked, but the output is");
        return;
    }
    let gradients = deliver(y, data.dy.tensor(device)).backward();
    let types = [Some(&data.x)].into_iter().chain(data.parameters.iter().map(Option::as_ref));
    let types: Vec<_> = types.map(|values| values.map_or(data.x.dtype, |v| v.dtype)).collect();
    let mut check = |leaf, name: &str, kind, exact: &Exact, found: Option<TensorData>| {
        let verdict = match (tracks(leaf), found) {
            (true, Some(found)) => compare(name, kind, exact, &found, accumulator)
                .and_then(|part| has_type(name, &found, types[leaf]).and(Ok(part))),
            (false, None) => Ok(0.0),
            (true, None) => Err(format!("{name} is missing")),
            (false, Some(_)) => Err(format!("{name} was not asked for")),
        };
        report.add(&case, [verdict]);
    };
    let dx = x.grad(&gradients).map(Tensor::into_data);
    check(0, "dx", Kind::Row, &expected.dx, dx);
    let given = parameters.iter().enumerate().filter_map(|(i, p)| Some((i, p.as_ref()?)));
    for ((i, p), exact) in given.zip(&expected.parameters) {
        let found = p.grad(&gradients).map(Tensor::into_data);
        check(i + 1, O::PARAMETERS[i], Kind::RowSum, exact, found);
    }
}

/// An output that is used twice gets the sum of both gradients.
pub fn output_used_twice<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("output_used_twice"), Report::default());
    let mut data = input::<O>(&mut random);
    let x = data.x.tensor::<2>(&device).autodiff().require_grad();
    let parameters: Vec<_> = data
        .parameters::<1>(&device)
        .into_iter()
        .map(|p| p.map(|p| p.autodiff().require_grad()))
        .collect();
    let y = op.forward(x.clone(), parameters.clone());
    let dy = data.dy.tensor::<2>(&device);
    let both = deliver(y.clone(), dy.clone()) + deliver(y.clone(), dy);
    let gradients = both.backward();
    let gradient = |p: &Option<Tensor<1>>| p.as_ref()?.grad(&gradients).map(Tensor::into_data);
    let outcome = Outcome {
        dx: x.grad(&gradients).map(Tensor::into_data),
        parameters: parameters.iter().map(gradient).collect(),
        y: y.into_data(),
    };
    // Twice a float is exact.
    data.dy.data.iter_mut().for_each(|dy| *dy *= 2.0);
    data.check(op, &outcome, &mut report, "used twice");
    report.finish();
}

/// `x + op(x)`: the sum's gradient reaches x from both sides.
pub fn residual<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("residual"), Report::default());
    let data = input::<O>(&mut random);
    let parameters = data.parameters::<1>(&device);
    let (x, dy) = (data.x.tensor::<2>(&device), data.dy.tensor::<2>(&device));
    let outcome = differentiate(Residual(op), x, parameters, dy);
    let mut expected = data.expected(op, None);
    add(&mut expected.y, &data.x.data);
    add(&mut expected.dx, &data.dy.data);
    let dx = outcome.dx.expect("x is tracked");
    let mut verdicts = vec![
        compare("y", Kind::Row, &expected.y, &outcome.y, DType::F32),
        compare("dx", Kind::Row, &expected.dx, &dx, DType::F32),
    ];
    for (exact, found) in expected.parameters.iter().zip(outcome.parameters.iter().flatten()) {
        verdicts.push(compare("dparameter", Kind::RowSum, exact, found, DType::F32));
    }
    report.add(format!("x + {}", O::NAME), verdicts);
    report.finish();
}

/// Adds `terms`, of which each is one more rounding.
fn add(exact: &mut Exact, terms: &[f64]) {
    for ((value, scale), term) in exact.values.iter_mut().zip(&mut exact.scales).zip(terms) {
        *value += term;
        *scale += term.abs();
    }
}

#[derive(Debug, Clone, Copy)]
struct Residual<O>(O);

impl<O: Op> Op for Residual<O> {
    const NAME: &'static str = O::NAME;
    const PARAMETERS: &'static [&'static str] = O::PARAMETERS;
    const AXES: usize = O::AXES;

    fn forward<const D: usize, const K: usize>(
        &self,
        x: Tensor<D>,
        parameters: Vec<Option<Tensor<K>>>,
    ) -> Tensor<D> {
        x.clone() + self.0.forward(x, parameters)
    }

    fn oracle(
        &self,
        _: &[f64],
        _: usize,
        _: &[Option<&[f64]>],
        _: &[f64],
        _: Option<&[f64]>,
    ) -> crate::oracle::Expected {
        unreachable!("the test adds to the op's own")
    }
}
