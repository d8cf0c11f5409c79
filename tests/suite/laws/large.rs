//! More elements than 31 and than 32 bits count, and the longest rows.

use crate::{
    compare::{Kind, Report, compare},
    deliver::deliver,
    device,
    op::{self, Data, Op},
    oracle::Exact,
    random::Random,
    values::{Values, exact},
};
use burn::tensor::{DType, Tensor};

const COLUMNS: usize = 4096;
/// Rows of a pattern that is repeated, as the host could not hold them all. It is odd, so that a
/// row number that wrapped around at a power of two would meet another row of it.
const PATTERN: usize = 1021;

/// Rows by their numbers: at both ends, around 2³¹ and 2³² elements, and between.
fn samples(rows: usize, random: &mut Random) -> Vec<usize> {
    let edges = [1 << 31, 1 << 32].map(|elements| elements / COLUMNS);
    let around = edges.into_iter().flat_map(|edge| [edge - 1, edge, edge + 1]);
    let ends = [0, 1, rows - 2, rows - 1];
    let between: Vec<_> = (0..20).map(|_| random.below(rows)).collect();
    around.chain(ends).chain(between).filter(|row| *row < rows).collect()
}

/// On a fast device 2³¹ elements and more; elsewhere the same test of fewer, so that it is tried.
pub fn past_31_bits_of_elements<O: Op>(op: O) {
    past(op, op, "past_31_bits_of_elements", 31);
}

/// The same of 2³².
pub fn past_32_bits_of_elements<O: Op>(op: O) {
    past(op, op, "past_32_bits_of_elements", 32);
}

/// x is as large in memory, dy an expanded view. `of_pattern` is the op on the matrix that is repeated
/// along a dimension ahead of its two.
pub fn past<O: Op>(of_pattern: O, op: O, test: &str, bits: u32) {
    let Some(device) = device::open() else { return };
    let mut random = Random::of(test);
    let times = if device::is_fast() {
        (1usize << bits) / COLUMNS / PATTERN + 1
    } else {
        println!("skipped: {} is too slow for 2^{bits} elements", device::name());
        2
    };
    let dtype = if device.supports_dtype(DType::BF16) { DType::BF16 } else { DType::F32 };
    let data = Data::random::<O>(&[PATTERN, COLUMNS], 1, dtype, Some(DType::F32), &mut random);
    let pattern = data.run(of_pattern, &device);
    let mut report = Report::default();
    data.check(of_pattern, &pattern, &mut report, "the pattern");
    let rows = times * PATTERN;
    let block =
        |values: &Values| values.clone().reshaped(&[1, PATTERN, COLUMNS]).tensor::<3>(&device);
    let x = block(&data.x).repeat_dim(0, times);
    for row in samples(rows, &mut random) {
        let expected = &data.x.data[row % PATTERN * COLUMNS..][..COLUMNS];
        assert_eq!(row_of(&x, row), expected, "x, so Burn's repetition: row {row} of {rows}");
    }
    let x = x.autodiff().require_grad();
    let dy = block(&data.dy).expand([times, PATTERN, COLUMNS]);
    let parameters = data.parameters::<1>(&device).into_iter().flatten();
    let parameters: Vec<_> = parameters.map(|p| Some(p.autodiff().require_grad())).collect();
    let y = op.forward(x.clone(), parameters.clone());
    let gradients = deliver(y.clone(), dy).backward();
    let dx = x.grad(&gradients).expect("x is tracked");
    for (name, whole, pattern) in
        [("y", y.inner(), &pattern.y), ("dx", dx, pattern.dx.as_ref().expect("x is tracked"))]
    {
        let pattern = exact(pattern);
        for row in samples(rows, &mut random) {
            let expected = &pattern[row % PATTERN * COLUMNS..][..COLUMNS];
            assert_eq!(row_of(&whole, row), expected, "{name}: row {row} of {rows}");
        }
    }
    for (name, (p, exact)) in O::PARAMETERS
        .iter()
        .zip(parameters.iter().flatten().zip(data.expected(op, None).parameters))
    {
        let found = p.grad(&gradients).expect("it is tracked").into_data();
        let exact = repeated_sums(exact, times as f64);
        report.add(O::NAME, [compare(name, Kind::RowSum, &exact, &found, DType::F32)]);
    }
    report.finish();
}

fn row_of(whole: &Tensor<3>, row: usize) -> Vec<f64> {
    let (block, at) = (row / PATTERN, row % PATTERN);
    let row: Tensor<3> = whole.clone().slice([block..block + 1, at..at + 1, 0..COLUMNS]);
    exact(&row.into_data())
}

/// Rows as long as a vocabulary, and longer.
pub fn columns_past_the_limits<O: Op>(op: O) {
    let shapes = [[3, 131_072], [2, 262_144]];
    check_all(op, "columns_past_the_limits", &shapes, &[DType::F32, DType::BF16]);
}

/// Many short rows; fewer where the device is slow.
pub fn a_million_rows<O: Op>(op: O) {
    let rows = if device::is_fast() { 1_000_000 } else { 20_011 };
    check_all(op, "a_million_rows", &[[rows, 64]], &[DType::BF16]);
}

fn check_all<O: Op>(op: O, test: &str, shapes: &[[usize; 2]], dtypes: &[DType]) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of(test), Report::default());
    let supported = op::dtypes::<O>(&device);
    for &dtype in dtypes.iter().filter(|dtype| supported.contains(dtype)) {
        for shape in shapes {
            let data = Data::random::<O>(shape, 1, dtype, Some(dtype), &mut random);
            data.check(op, &data.run(op, &device), &mut report, "");
        }
    }
    if dtypes.iter().any(|dtype| supported.contains(dtype)) {
        report.finish();
    }
}

/// Sums over rows of which each comes so many times, and with it each time the same rounding errors.
fn repeated_sums(mut once: Exact, times: f64) -> Exact {
    for number in once.values.iter_mut().chain(&mut once.scales) {
        *number *= times;
    }
    once
}
