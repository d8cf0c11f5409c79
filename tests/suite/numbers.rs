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
