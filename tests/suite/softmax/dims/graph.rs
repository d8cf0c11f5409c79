//! The op along a dimension as a node among others.

use super::{Case, Form, both};
use crate::{
    compare::{Kind, Report, compare},
    deliver::deliver,
    device,
    op::Outcome,
    oracle::Exact,
    random::Random,
    values::Values,
};
use burn::tensor::DType;

both!(of_swapped_dimensions, residual);

/// The gradient of a leaf whose dimensions are swapped ahead of the op (burn 3142).
fn of_swapped_dimensions<F: Form>() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("of_swapped_dimensions"), Report::default());
    for shape in [[1, 2, 4], [3, 65, 33], [4, 6, 64]] {
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            for dim in 0..3 {
                let leaf = Values::normal(&shape, DType::F32, &mut random);
                let x = leaf.tensor::<3>(&device).autodiff().require_grad();
                let swapped = x.clone().swap_dims(a, b);
                let values = Values::returned(&swapped.clone().inner().into_data());
                let dy = Values::normal(&swapped.dims(), DType::F32, &mut random);
                let case = Case { x: values, dy, dim };
                let y = F::along(dim as isize).forward::<3, 1>(swapped, vec![]);
                let gradients = deliver(y.clone(), case.dy.tensor(&device)).backward();
                let dx = x.grad(&gradients).expect("x is tracked").swap_dims(a, b);
                let outcome =
                    Outcome { y: y.into_data(), dx: Some(dx.into_data()), parameters: vec![] };
                case.check::<F>(&outcome, &mut report, &format!("{a} and {b} swapped"));
            }
        }
    }
    report.finish();
}

/// `x + op(x)`: the sum's gradient reaches x from both sides, one more rounding of each value.
fn residual<F: Form>() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("residual"), Report::default());
    for dim in 0..3 {
        let case = Case::random(&[5, 67, 9], dim, DType::F32, &mut random);
        let x = case.x.tensor::<3>(&device).autodiff().require_grad();
        let y = x.clone() + F::along(dim as isize).forward::<3, 1>(x.clone(), vec![]);
        let gradients = deliver(y.clone(), case.dy.tensor(&device)).backward();
        let dx = x.grad(&gradients).expect("x is tracked");
        let [x, dy] = [&case.x, &case.dy].map(|values| values.with_last(dim));
        let expected = F::along(-1).oracle(&x.data, case.x.shape[dim], &[], &dy.data, None);
        let with = |exact: Exact, terms: &[f64]| Exact {
            values: exact.values.iter().zip(terms).map(|(value, term)| value + term).collect(),
            scales: exact
                .scales
                .iter()
                .zip(terms)
                .map(|(scale, term)| scale + term.abs())
                .collect(),
        };
        let moved = |data| Values::returned(&data).with_last(dim).data();
        let verdict = |name, expected: &Exact, data| {
            compare(name, Kind::Row, expected, &moved(data), DType::F32)
        };
        report.add(
            format!("x + {} along {dim}", F::NAME),
            [
                verdict("y", &with(expected.y, &x.data), y.into_data()),
                verdict("dx", &with(expected.dx, &dy.data), dx.into_data()),
            ],
        );
    }
    report.finish();
}
