//! Zeros and values near the ends of their types.

use super::RmsNorm;
use crate::{
    device,
    numbers::{self, Numbers, SHAPE},
    values::Values,
};
use burn::tensor::DType;

#[test]
fn zeros() {
    let Some(mut numbers) = Numbers::open("zeros") else { return };
    for dtype in device::dtypes(&numbers.device) {
        for epsilon in [1e-5, 1e-12] {
            numbers.rows_of(RmsNorm(epsilon), dtype, "zeros", |_| 0.0);
        }
        numbers.rows_of(RmsNorm(0.0), dtype, "epsilon 0", |column| 1.0 + column as f64);
        // 0 · (1 / 0): NaN, as the formula says.
        numbers.rows_of(RmsNorm(0.0), dtype, "zeros, epsilon 0", |_| 0.0);
    }
    numbers.report.finish();
}

/// `sqrt(mean + eps)` and not `sqrt(mean) + eps`; and eps is not rounded to a narrow type.
#[test]
fn epsilon_of_the_size_of_the_mean_square() {
    let Some(mut numbers) = Numbers::open("epsilon_of_the_size") else { return };
    for dtype in device::dtypes(&numbers.device) {
        for epsilon in [0.25, 1.0, 3.0] {
            let data = numbers.data::<RmsNorm>(SHAPE, dtype);
            numbers.check(RmsNorm(epsilon), &data, "large epsilon");
        }
        let sign = |column: usize| if column.is_multiple_of(2) { 1.0 } else { -1.0 };
        // The least f16 is 6e-8, so 1e-12 would be a zero there.
        numbers.rows_of(RmsNorm(1e-12), dtype, "small epsilon", |column| {
            sign(column) * 1e-6 * (1 + column % 5) as f64
        });
    }
    numbers.report.finish();
}

#[test]
fn large_and_small_values() {
    let Some(mut numbers) = Numbers::open("large_and_small_values") else { return };
    let sizes = |dtype| match dtype {
        DType::F16 => [1000.0, 65_504.0, 6e-5],
        DType::F64 => [1e18, 1e150, 1e-150],
        _ => [1e4, 1e18, 1e-18],
    };
    for dtype in device::dtypes(&numbers.device) {
        for size in sizes(dtype) {
            let sign = |column: usize| if column.is_multiple_of(3) { -size } else { size };
            let part = |column: usize| 1.0 - (column % 7) as f64 / 16.0;
            // Gradients about the size of x, so that dx is about 1.
            let mut data = numbers.data::<RmsNorm>(SHAPE, dtype);
            data.x = Values::of(&SHAPE, dtype, |i| sign(i % SHAPE[1]) * part(i));
            data.dy = Values::of(&SHAPE, dtype, |i| data.dy.data[i] * size.min(1e3));
            let epsilon = if size < 1e-15 { 0.0 } else { 1e-5 };
            numbers.check(RmsNorm(epsilon), &data, &format!("size {size:e}"));
        }
    }
    numbers.report.finish();
}

#[test]
fn squares_past_the_range() {
    numbers::squares_past_the_range(RmsNorm::default());
}
