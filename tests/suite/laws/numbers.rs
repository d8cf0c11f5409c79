//! NaN and infinities stay where they are.

use crate::{
    numbers::{Numbers, SHAPE, WIDE},
    op::{Data, Op, Outcome, dtypes},
    values::exact,
};
use burn::tensor::DType;

/// A NaN, an infinity, in x and in dy: all values as the oracle has them, other rows untouched.
pub fn not_a_number_stays_in_its_row<O: Op>(op: O) {
    let Some(mut numbers) = Numbers::open("not_a_number_stays_in_its_row") else { return };
    let mut cases: Vec<_> = dtypes::<O>(&numbers.device).into_iter().map(|t| (SHAPE, t)).collect();
    cases.push((WIDE, DType::F32));
    for (shape, dtype) in cases {
        let data = Data::random::<O>(&shape, 1, dtype, Some(dtype), &mut numbers.random);
        let clean = numbers.check(op, &data, "clean");
        let [row, column] = shape.map(|size| numbers.random.below(size));
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for name in ["x", "dy"] {
                let mut spoilt = data.clone();
                let tensor = if name == "x" { &mut spoilt.x } else { &mut spoilt.dy };
                tensor.data[row * shape[1] + column] = bad;
                let case = format!("{bad} in {name}");
                let outcome = numbers.check(op, &spoilt, &case);
                for (found, clean) in own(&outcome).iter().zip(&own(&clean)) {
                    let others = (0..found.len()).filter(|i| i / shape[1] != row);
                    let differ = |i: &usize| found[*i].to_bits() != clean[*i].to_bits();
                    assert_eq!(others.filter(differ).count(), 0, "{case} left row {row}");
                }
            }
        }
    }
    numbers.report.finish();
}

/// What is each row's own.
fn own(outcome: &Outcome) -> [Vec<f64>; 2] {
    [exact(&outcome.y), exact(outcome.dx.as_ref().expect("x is tracked"))]
}
