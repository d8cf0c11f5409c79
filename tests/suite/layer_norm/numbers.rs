//! Means far from zero, constant rows, and values near the ends of their types.

use super::LayerNorm;
use crate::{
    device,
    numbers::{self, Numbers, SHAPE, WIDE},
    values::{Values, round, ulp},
};
use burn::tensor::DType;

/// The bound is as narrow as for a mean of zero: no digit is lost to the mean.
#[test]
fn mean_of_a_hundred_spreads() {
    let Some(mut numbers) = Numbers::open("mean_of_a_hundred_spreads") else { return };
    for columns in [1000, 4096, 40_001] {
        let mut data = numbers.data::<LayerNorm>([5, columns], DType::F32);
        data.x = Values::of(&[5, columns], DType::F32, |_| 100.0 + numbers.random.normal());
        numbers.check(LayerNorm::default(), &data, "mean 100, spread 1");
    }
    numbers.report.finish();
}

#[test]
fn epsilon_of_the_size_of_the_variance() {
    numbers::epsilon_of_the_size_of_the_spread(LayerNorm);
}

/// Rows of one value each, of which sums are not exact: x̂ is zero to the bit, and so is dγ.
#[test]
fn constant_rows() {
    let Some(mut numbers) = Numbers::open("constant_rows") else { return };
    for dtype in device::dtypes(&numbers.device) {
        for epsilon in [1e-5, 1e-12] {
            for shape in [SHAPE, [64, 100], [64, 1000], [40, 3584], [12, 7000], [12, 40_001]] {
                let mut data = numbers.data::<LayerNorm>(shape, dtype);
                let scales = [1e-20, 0.01, 1.0, 1000.0];
                let row: Vec<f64> =
                    (0..shape[0]).map(|i| scales[i % 4] * numbers.random.normal()).collect();
                data.x = Values::of(&shape, dtype, |i| row[i / shape[1]]);
                numbers.check(LayerNorm(epsilon), &data, "rows of one value");
            }
        }
    }
    numbers.report.finish();
}

/// One of very many equal values is the next one in its type, and the variance far below the mean's rounding.
/// Where that one is the first no sum over rows is as exact as its terms would have to be.
#[test]
fn one_value_but_for_one() {
    let Some(mut numbers) = Numbers::open("one_value_but_for_one") else { return };
    for columns in [3584, 70_000, 300_000] {
        for (odd, epsilon) in [(columns - 1, 1e-12), (0, 1e-5)] {
            let mut data = numbers.data::<LayerNorm>([9, columns], DType::F32);
            let row: Vec<f64> = (0..9).map(|_| 1000.0 + 7.0 * numbers.random.normal()).collect();
            data.x = Values::of(&[9, columns], DType::F32, |i| {
                let value = round(row[i / columns], DType::F32);
                if i % columns == odd { value + ulp(value, DType::F32) } else { value }
            });
            if odd == 0 {
                data.parameters.fill(None);
            }
            let case = format!("all but column {odd} of one value, epsilon {epsilon:e}");
            numbers.check(LayerNorm(epsilon), &data, &case);
        }
    }
    numbers.report.finish();
}

#[test]
fn zeros() {
    numbers::zeros(LayerNorm);
}

/// Rows of which the first values are 1e4 from the others, which are 1e-3 apart.
#[test]
fn first_values_far_from_the_rest() {
    let Some(mut numbers) = Numbers::open("first_values_far_from_the_rest") else { return };
    for shape in [SHAPE, [3, 4096], WIDE] {
        for far in [1, 2000].into_iter().filter(|far| *far < shape[1]) {
            for (first, rest) in [(1e4, 0.0), (0.0, 1e4), (-1e4, 100.0)] {
                let case = format!("{far} values of {first}, then {rest}");
                let value = |column: usize| {
                    let base = if column < far { first } else { rest };
                    base + 1e-3 * (column % 16) as f64
                };
                let op = LayerNorm::default();
                numbers.rows_under_a_random_one(op, shape, DType::F32, &case, value);
            }
        }
    }
    numbers.report.finish();
}

/// In f64, whose mean is more exact than that: a first value that is close to the mean, and far from the rest.
#[test]
fn first_value_close_to_the_mean() {
    let Some(mut numbers) = Numbers::open("first_value_close_to_the_mean") else { return };
    if !numbers.device.supports_dtype(DType::F64) {
        return println!("skipped: {} does not compute in F64", device::name());
    }
    for columns in [77, 3000, 40_001] {
        let mut data = numbers.data::<LayerNorm>([5, columns], DType::F64);
        data.x = Values::of(&[5, columns], DType::F64, |i| {
            1.0 + if i % columns == 0 { 5e-7 } else { 1e-12 * numbers.random.normal() }
        });
        numbers.check(LayerNorm(1e-30), &data, "5e-7 from a mean of 1, others 1e-12");
    }
    numbers.report.finish();
}

#[test]
fn large_and_small_values() {
    numbers::large_and_small_values(LayerNorm);
}

#[test]
fn squares_past_the_range() {
    numbers::squares_past_the_range(LayerNorm::default());
}

/// Rows of one large value: even the scaled squares are nothing, and so is epsilon among them.
#[test]
fn large_equal_values() {
    let Some(mut numbers) = Numbers::open("large_equal_values") else { return };
    for value in [1e15, 5e24, 1e30, 1.1e38] {
        for shape in [SHAPE, [3, 768], WIDE] {
            let case = format!("all {value:e}");
            let op = LayerNorm::default();
            numbers.rows_under_a_random_one(op, shape, DType::F32, &case, |_| value);
        }
    }
    numbers.report.finish();
}

/// The distance of a padding lane from such a mean, over the root of epsilon, is past the type's range.
#[test]
fn padding_beside_a_large_mean() {
    let Some(mut numbers) = Numbers::open("padding_beside_a_large_mean") else { return };
    for (power, epsilon) in [(113, 1e-12), (120, 1e-5)] {
        for columns in [13, 20, 33, 64, 300] {
            let case = format!("all 2^{power}, epsilon {epsilon:e}");
            let (op, shape) = (LayerNorm(epsilon), [3, columns]);
            let value = 2f64.powi(power);
            numbers.rows_under_a_random_one(op, shape, DType::F32, &case, |_| value);
        }
    }
    numbers.report.finish();
}

/// A sum of these overflows unless each is made smaller first, and compilers may put that last.
#[test]
fn large_values_of_one_sign() {
    let Some(mut numbers) = Numbers::open("large_values_of_one_sign") else { return };
    for shape in [[3, 31], [3, 77], [3, 125], WIDE] {
        let value = |column: usize| if column.is_multiple_of(16) { 0.3e38 } else { 1.5e38 };
        let op = LayerNorm::default();
        numbers.rows_under_a_random_one(op, shape, DType::F32, "1.5e38 or 0.3e38", value);
    }
    numbers.report.finish();
}
