//! NaN, infinities, zeros and values near the ends of their types.

use super::RmsNorm;
use crate::{
    compare::Report,
    device,
    op::{Data, Outcome},
    random::Random,
    values::{Values, exact, round},
};
use burn::tensor::{DType, Device};

const SHAPE: [usize; 2] = [9, 77];
const COLUMNS: usize = SHAPE[1];
/// Rows that no runtime holds in registers.
const WIDE: [usize; 2] = [3, 40_001];

struct Numbers {
    device: Device,
    random: Random,
    report: Report,
}

impl Numbers {
    fn open(test: &str) -> Option<Self> {
        let device = device::open()?;
        Some(Self { device, random: Random::of(test), report: Report::default() })
    }

    fn data(&mut self, dtype: DType) -> Data {
        Data::random::<RmsNorm>(&SHAPE, 1, dtype, Some(dtype), &mut self.random)
    }

    fn check(&mut self, epsilon: f64, data: &Data, case: &str) -> Outcome {
        let op = RmsNorm(epsilon);
        let outcome = data.run(op, &self.device);
        data.check(op, &outcome, &mut self.report, case);
        outcome
    }

    /// Replaces x by `value(column)` in all rows, and checks.
    fn rows_of(&mut self, epsilon: f64, dtype: DType, case: &str, value: impl Fn(usize) -> f64) {
        let mut data = self.data(dtype);
        data.x = Values::of(&SHAPE, dtype, |i| value(i % COLUMNS));
        self.check(epsilon, &data, case);
    }
}

/// A NaN, an infinity, in x and in dy: all values as the oracle has them, other rows untouched.
#[test]
fn not_a_number_stays_in_its_row() {
    let Some(mut numbers) = Numbers::open("not_a_number_stays_in_its_row") else { return };
    let mut cases: Vec<_> =
        device::dtypes(&numbers.device).into_iter().map(|t| (SHAPE, t)).collect();
    cases.push((WIDE, DType::F32));
    for (shape, dtype) in cases {
        let data = Data::random::<RmsNorm>(&shape, 1, dtype, Some(dtype), &mut numbers.random);
        let clean = numbers.check(1e-5, &data, "clean");
        let [row, column] = shape.map(|size| numbers.random.below(size));
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for name in ["x", "dy"] {
                let mut spoilt = data.clone();
                let tensor = if name == "x" { &mut spoilt.x } else { &mut spoilt.dy };
                tensor.data[row * shape[1] + column] = bad;
                let case = format!("{bad} in {name}");
                let outcome = numbers.check(1e-5, &spoilt, &case);
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

#[test]
fn zeros() {
    let Some(mut numbers) = Numbers::open("zeros") else { return };
    for dtype in device::dtypes(&numbers.device) {
        for epsilon in [1e-5, 1e-12] {
            numbers.rows_of(epsilon, dtype, "zeros", |_| 0.0);
        }
        numbers.rows_of(0.0, dtype, "epsilon 0", |column| 1.0 + column as f64);
        // 0 · (1 / 0): NaN, as the formula says.
        numbers.rows_of(0.0, dtype, "zeros, epsilon 0", |_| 0.0);
    }
    numbers.report.finish();
}

/// `sqrt(mean + eps)` and not `sqrt(mean) + eps`; and eps is not rounded to a narrow type.
#[test]
fn epsilon_of_the_size_of_the_mean_square() {
    let Some(mut numbers) = Numbers::open("epsilon_of_the_size") else { return };
    for dtype in device::dtypes(&numbers.device) {
        for epsilon in [0.25, 1.0, 3.0] {
            let data = numbers.data(dtype);
            numbers.check(epsilon, &data, "large epsilon");
        }
        let sign = |column: usize| if column.is_multiple_of(2) { 1.0 } else { -1.0 };
        // The least f16 is 6e-8, so 1e-12 would be a zero there.
        numbers.rows_of(1e-12, dtype, "small epsilon", |column| {
            sign(column) * 1e-6 * (1 + column % 5) as f64
        });
    }
    numbers.report.finish();
}

/// As far as the squares' sum stays in the accumulator's range.
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
            let mut data = numbers.data(dtype);
            data.x = Values::of(&SHAPE, dtype, |i| sign(i % COLUMNS) * part(i));
            data.dy = Values::of(&SHAPE, dtype, |i| data.dy.data[i] * size.min(1e3));
            numbers.check(if size < 1e-15 { 0.0 } else { 1e-5 }, &data, &format!("size {size:e}"));
        }
    }
    numbers.report.finish();
}

/// Documented: an f32 row whose squares' sum leaves the type's range gives zeros.
#[test]
fn squares_past_the_range_give_zeros() {
    let Some(mut numbers) = Numbers::open("squares_past_the_range_give_zeros") else { return };
    let (dtype, op) = (DType::F32, RmsNorm::default());
    for (size, shape) in [1e20, 1e30, 3e38].into_iter().flat_map(|v| [(v, SHAPE), (v, WIDE)]) {
        let mut data = Data::random::<RmsNorm>(&shape, 1, dtype, Some(dtype), &mut numbers.random);
        // The first row stays as it is: its neighbours are no matter to it.
        let columns = shape[1];
        for (i, x) in data.x.data.iter_mut().enumerate().skip(columns) {
            *x = round(if i.is_multiple_of(2) { size } else { -size }, dtype);
        }
        let outcome = data.run(op, &numbers.device);
        let alone = data.rows(&[0]).run(op, &numbers.device);
        for (whole, alone) in own(&outcome).iter().zip(&own(&alone)) {
            let wrong = whole[columns..].iter().filter(|v| **v != 0.0).count();
            assert_eq!(wrong, 0, "{shape:?} of {size:e}: not all are zeros");
            assert_eq!(&whole[..columns], alone);
        }
        let (whole, alone) = (&outcome.parameters, &alone.parameters);
        assert_eq!(exact(whole[0].as_ref().unwrap()), exact(alone[0].as_ref().unwrap()));
    }
}
