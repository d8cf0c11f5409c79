//! Infinities, logits far apart or all the same, and sums of one.

use super::{LogSoftmax, Softmax};
use crate::{
    numbers::{Numbers, SHAPE, WIDE},
    op::Op,
    oracle::sum,
    softmax,
    values::{Values, exact, ulp},
};
use burn::tensor::DType;

/// Both forms of rows under a random one, in all types.
fn rows(test: &str, shapes: &[[usize; 2]], case: &str, value: impl Fn(DType, usize) -> f64) {
    fn check<O: Op>(
        op: O,
        numbers: &mut Numbers,
        shapes: &[[usize; 2]],
        case: &str,
        value: &impl Fn(DType, usize) -> f64,
    ) {
        for dtype in softmax::dtypes(&numbers.device) {
            for &shape in shapes {
                let value = |column| value(dtype, column);
                numbers.rows_under_a_random_one(op, shape, dtype, case, value);
            }
        }
    }
    let Some(mut numbers) = Numbers::open(test) else { return };
    check(Softmax(-1), &mut numbers, shapes, case, &value);
    check(LogSoftmax(-1), &mut numbers, shapes, case, &value);
    numbers.report.finish();
}

/// As a mask leaves them: no part of the sum.
#[test]
fn some_minus_infinity() {
    let some = |_, column: usize| {
        if column.is_multiple_of(3) { f64::NEG_INFINITY } else { (column % 5) as f64 }
    };
    rows("some_minus_infinity", &[SHAPE, WIDE], "some -inf", some);
    let last = |_, column: usize| if column < 76 { f64::NEG_INFINITY } else { 2.0 };
    rows("some_minus_infinity", &[SHAPE], "all -inf but the last", last);
}

/// NaN, as in Burn and PyTorch (burn 4694); the oracle says so.
#[test]
fn all_minus_infinity() {
    let all = |_, _| f64::NEG_INFINITY;
    rows("all_minus_infinity", &[SHAPE, WIDE, [3, 1]], "all -inf", all);
}

#[test]
fn logits_far_apart() {
    for size in [1e4f64, 3e38] {
        let value = |dtype, column: usize| {
            let size = if dtype == DType::F16 { size.min(65_504.0) } else { size };
            [-size, 0.0, size][column % 3]
        };
        rows("logits_far_apart", &[SHAPE, WIDE], &format!("{size:e} apart"), value);
        let one = |dtype, column: usize| if column == 40 { value(dtype, 2) } else { 0.0 };
        rows("logits_far_apart", &[SHAPE, WIDE], &format!("one of {size:e}"), one);
    }
}

/// What counts is their distance, not their size.
#[test]
fn logits_far_from_zero() {
    for base in [-60_000.0, 60_000.0] {
        let near = |_, column: usize| base + (column % 3 * 32) as f64;
        rows("logits_far_from_zero", &[SHAPE, WIDE], &format!("about {base}"), near);
    }
}

#[test]
fn equal_values() {
    for value in [0.0, 0.1, -65_504.0] {
        rows("equal_values", &[SHAPE, WIDE], &format!("all {value}"), |_, _| value);
    }
}

/// 1 and 0, whatever the value.
#[test]
fn one_column() {
    for value in [0.0, 1e4, -65_504.0, f64::INFINITY, f64::NAN] {
        rows("one_column", &[[9, 1]], &format!("{value}"), |_, _| value);
    }
}

/// Every y of a row has the one error of the sum that it is divided by, at most 1e-6, and its own
/// rounding, which in f16 may be that of a subnormal value.
#[test]
fn rows_sum_to_one() {
    let Some(mut numbers) = Numbers::open("rows_sum_to_one") else { return };
    for dtype in softmax::dtypes(&numbers.device) {
        for shape in [SHAPE, [5, 1025], WIDE] {
            let data = numbers.data::<Softmax>(shape, dtype);
            let y = exact(&numbers.check(Softmax(-1), &data, "").y);
            let bound = if dtype == DType::F64 { 1e-14 } else { 1e-6 };
            let bound = bound + 0.5 * (ulp(1.0, dtype) + shape[1] as f64 * ulp(0.0, dtype));
            for (row, y) in y.chunks(shape[1]).enumerate() {
                let error = (sum(y.iter().copied()) - 1.0).abs();
                assert!(error <= bound, "row {row} of {shape:?} {dtype:?} is off by {error:e}");
            }
        }
    }
    numbers.report.finish();
}

/// Logits that rise evenly, so that the largest so far changes all the way and a running sum is scaled
/// with it; along rows, and down the columns of a matrix.
#[test]
fn rising_logits() {
    fn check<O: Op>(numbers: &mut Numbers, rows: O, columns: O) {
        for length in [300, 4096, 70_000] {
            for span in [0.5, 2.0, 50.0] {
                let (case, part) = (format!("rising by {span}"), span / length as f64);
                let dtype = DType::F32;
                numbers.rows_under_a_random_one(rows, [2, length], dtype, &case, |column| {
                    part * column as f64
                });
                let mut data = numbers.data::<O>([length, 2], dtype);
                data.x = Values::of(&[length, 2], dtype, |i| part * (i / 2) as f64);
                numbers.check(columns, &data, &case);
            }
        }
    }
    let Some(mut numbers) = Numbers::open("rising_logits") else { return };
    check(&mut numbers, Softmax(-1), Softmax(0));
    check(&mut numbers, LogSoftmax(-1), LogSoftmax(0));
    numbers.report.finish();
}
