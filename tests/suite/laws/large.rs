//! More elements than 32 bits count.

use crate::{
    compare::{Kind, Report, compare},
    deliver::deliver,
    device,
    op::{Data, Op},
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

/// On a fast device 2³² elements and more; elsewhere the same test of fewer, so that it is tried.
pub fn past_32_bits_of_elements<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("past_32_bits_of_elements");
    let times = if device::is_fast() {
        (1usize << 32) / COLUMNS / PATTERN + 1
    } else {
        println!("skipped: {} is too slow for 2^32 elements", device::name());
        2
    };
    let dtype = if device.supports_dtype(DType::BF16) { DType::BF16 } else { DType::F32 };
    let data = Data::random::<O>(&[PATTERN, COLUMNS], 1, dtype, Some(DType::F32), &mut random);
    let pattern = data.run(op, &device);
    let rows = times * PATTERN;
    let repeated = |values: &Values| {
        let block = values.clone().reshaped(&[1, PATTERN, COLUMNS]).tensor::<3>(&device);
        block.expand([times, PATTERN, COLUMNS])
    };
    let (x, dy) = (repeated(&data.x).autodiff().require_grad(), repeated(&data.dy));
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
            let (block, at) = (row / PATTERN, row % PATTERN);
            let found: Tensor<3> = whole.clone().slice([block..block + 1, at..at + 1, 0..COLUMNS]);
            let expected = &pattern[at * COLUMNS..][..COLUMNS];
            assert_eq!(exact(&found.into_data()), expected, "{name}: row {row} of {rows}");
        }
    }
    let mut report = Report::default();
    for (name, (p, exact)) in
        O::PARAMETERS.iter().zip(parameters.iter().flatten().zip(data.expected(op).parameters))
    {
        let found = p.grad(&gradients).expect("it is tracked").into_data();
        let exact = repeated_sums(exact, times as f64);
        report.add(O::NAME, [compare(name, Kind::RowSum, &exact, &found, DType::F32)]);
    }
    if !O::PARAMETERS.is_empty() {
        report.finish();
    }
}

/// Sums over rows of which each comes so many times.
fn repeated_sums(mut once: Exact, times: f64) -> Exact {
    for (value, scale) in once.values.iter_mut().zip(&mut once.scales) {
        *value *= times;
        *scale = value.abs().max(*scale * times.sqrt());
    }
    once
}
