//! More elements than 32 bits count.

use crate::{
    device,
    op::{Data, Op},
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
    let types = if device.supports_dtype(DType::BF16) { DType::BF16 } else { DType::F32 };
    let data = Data::random::<O>(&[PATTERN, COLUMNS], 1, types, Some(DType::F32), &mut random);
    let pattern = data.run(op, &device);
    let rows = times * PATTERN;
    let repeated = |values: &Values| {
        let pattern = values.tensor::<3>(&device);
        pattern.expand([times, PATTERN, COLUMNS]).autodiff().require_grad()
    };
    let [mut x, mut dy] = [data.x.clone(), data.dy.clone()];
    for values in [&mut x, &mut dy] {
        values.shape.insert(0, 1);
    }
    let (x, dy) = (repeated(&x), repeated(&dy).inner());
    let y = op.forward(x.clone(), data.parameters::<1>(&device));
    let gradients = crate::deliver::deliver(y.clone(), dy).backward();
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
}
