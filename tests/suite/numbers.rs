//! What the tests of extreme values share.

use crate::{
    compare::Report,
    device,
    op::{Data, Op, Outcome},
    random::Random,
    values::{Values, round},
};
use burn::tensor::{DType, Device};

pub const SHAPE: [usize; 2] = [9, 77];
/// Rows that no runtime holds in registers.
pub const WIDE: [usize; 2] = [3, 40_001];

pub struct Numbers {
    pub device: Device,
    pub random: Random,
    pub report: Report,
}

impl Numbers {
    pub fn open(test: &str) -> Option<Self> {
        let device = device::open()?;
        Some(Self { device, random: Random::of(test), report: Report::default() })
    }

    pub fn data<O: Op>(&mut self, shape: [usize; 2], dtype: DType) -> Data {
        Data::random::<O>(&shape, 1, dtype, Some(dtype), &mut self.random)
    }

    pub fn check<O: Op>(&mut self, op: O, data: &Data, case: &str) -> Outcome {
        let outcome = data.run(op, &self.device);
        data.check(op, &outcome, &mut self.report, case);
        outcome
    }

    /// Replaces x by `value(column)` in all rows, and checks.
    pub fn rows_of<O: Op>(
        &mut self,
        op: O,
        dtype: DType,
        case: &str,
        value: impl Fn(usize) -> f64,
    ) {
        let mut data = self.data::<O>(SHAPE, dtype);
        data.x = Values::of(&SHAPE, dtype, |i| value(i % SHAPE[1]));
        self.check(op, &data, case);
    }

    /// Replaces x by `value(column)` in all rows but the first, and checks.
    pub fn rows_under_a_random_one<O: Op>(
        &mut self,
        op: O,
        shape: [usize; 2],
        dtype: DType,
        case: &str,
        value: impl Fn(usize) -> f64,
    ) {
        let mut data = self.data::<O>(shape, dtype);
        for (i, x) in data.x.data.iter_mut().enumerate().skip(shape[1]) {
            *x = round(value(i % shape[1]), dtype);
        }
        self.check(op, &data, case);
    }
}

/// A norm of rows whose squares are past the accumulator's range. Gradients are large, so that dx is in f32's range of normal values.
pub fn squares_past_the_range<O: Op>(op: O) {
    let Some(mut numbers) = Numbers::open("squares_past_the_range") else { return };
    let dtypes = device::dtypes(&numbers.device);
    for dtype in dtypes.into_iter().filter(|dtype| matches!(dtype, DType::F32 | DType::BF16)) {
        for (size, shape) in [1e20, 1e30, 1e38].into_iter().flat_map(|v| [(v, SHAPE), (v, WIDE)]) {
            let sign = |column: usize| if column.is_multiple_of(3) { -size } else { size };
            let part = |column: usize| 1.0 - (column % 7) as f64 / 16.0;
            let mut data = numbers.data::<O>(shape, dtype);
            for (i, x) in data.x.data.iter_mut().enumerate().skip(shape[1]) {
                *x = round(sign(i % shape[1]) * part(i), dtype);
            }
            data.dy.data.iter_mut().for_each(|dy| *dy = round(*dy * 1e18, dtype));
            numbers.check(op, &data, &format!("size {size:e}"));
        }
    }
    numbers.report.finish();
}

/// Rows of zeros, with an epsilon and without.
pub fn zeros<O: Op>(op: impl Fn(f64) -> O) {
    let Some(mut numbers) = Numbers::open("zeros") else { return };
    for dtype in device::dtypes(&numbers.device) {
        for epsilon in [1e-5, 1e-12] {
            numbers.rows_of(op(epsilon), dtype, "zeros", |_| 0.0);
        }
        numbers.rows_of(op(0.0), dtype, "epsilon 0", |column| 1.0 + column as f64);
        // 0 · (1 / 0): NaN, as the formula says.
        numbers.rows_of(op(0.0), dtype, "zeros, epsilon 0", |_| 0.0);
    }
    numbers.report.finish();
}

/// `epsilon` of the size of the mean square, or of the variance: inside the root, `sqrt(mean + eps)` and
/// not `sqrt(mean) + eps`; and it is not rounded to a narrow type.
pub fn epsilon_of_the_size_of_the_spread<O: Op>(op: impl Fn(f64) -> O) {
    let Some(mut numbers) = Numbers::open("epsilon_of_the_size_of_the_spread") else { return };
    for dtype in device::dtypes(&numbers.device) {
        for epsilon in [0.25, 1.0, 3.0] {
            let data = numbers.data::<O>(SHAPE, dtype);
            numbers.check(op(epsilon), &data, "large epsilon");
        }
        let sign = |column: usize| if column.is_multiple_of(2) { 1.0 } else { -1.0 };
        // The least f16 is 6e-8, so 1e-12 would be a zero there.
        numbers.rows_of(op(1e-12), dtype, "small epsilon", |column| {
            sign(column) * 1e-6 * (1 + column % 5) as f64
        });
    }
    numbers.report.finish();
}

/// Near the ends of each type's range.
pub fn large_and_small_values<O: Op>(op: impl Fn(f64) -> O) {
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
            let mut data = numbers.data::<O>(SHAPE, dtype);
            data.x = Values::of(&SHAPE, dtype, |i| sign(i % SHAPE[1]) * part(i));
            data.dy = Values::of(&SHAPE, dtype, |i| data.dy.data[i] * size.min(1e3));
            let epsilon = if size < 1e-15 { 0.0 } else { 1e-5 };
            numbers.check(op(epsilon), &data, &format!("size {size:e}"));
        }
    }
    numbers.report.finish();
}
