//! Both outputs and all gradients beside the oracle, and beside the bits of Burn's `+` and the op.

use super::{AddNorm, EVERY_USE, Sums, Used, both};
use crate::{compare::Report, device, op::dtypes, random::Random, values::Values};
use burn::tensor::{DType, Device};

both!(every_size lengths_and_types far_from_zero cancelled);

const ALL: usize = usize::MAX;

/// Checks a run; and its bits, where none are lost: in types that sums are taken in, as narrower ones are
/// rounded once where both gradients meet.
fn check<O: AddNorm>(op: O, sums: &Sums, used: Used, device: &Device, report: &mut Report) {
    let case = format!("{} {}, {used:?} used", O::ADD, sums.data);
    let found = sums.run(op, used, ALL, device);
    report.add(&case, sums.check(op, used, ALL, &found));
    let once = used != Used::Both || sums.data.x.dtype == sums.data.accumulator();
    if once && device::keeps_order() {
        let mut apart = sums.run_apart(op, used, ALL, device);
        if used == Used::Sum {
            // Where the norm was not used, nothing reaches its parameters.
            apart.gradients[2..].clone_from_slice(&found.gradients[2..]);
        }
        report.add(&case, found.same_bits(&apart));
    }
}

/// Narrow and wide rows, few and many.
fn every_size<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("every_size"), Report::default());
    let shapes =
        [[1, 1], [3, 2], [257, 33], [2049, 64], [37, 768], [9, 4096], [5, 8193], [3, 40_001]];
    for shape in shapes {
        for parameters in [Some(DType::F32), None] {
            for used in EVERY_USE {
                let sums = Sums::random::<O>(&shape, 1, DType::F32, parameters, &mut random);
                check(op, &sums, used, &device, &mut report);
            }
        }
    }
    report.finish();
}

fn lengths_and_types<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("lengths_and_types"), Report::default());
    for dtype in dtypes::<O>(&device) {
        for columns in [31, 256, 3584] {
            for (parameters, used) in
                [(Some(dtype), Used::Both), (Some(DType::F32), Used::Norm), (None, Used::Both)]
            {
                let sums = Sums::random::<O>(&[7, columns], 1, dtype, parameters, &mut random);
                check(op, &sums, used, &device, &mut report);
            }
        }
    }
    report.finish();
}

/// Rows whose mean is a hundred times their spread.
fn far_from_zero<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("far_from_zero"), Report::default());
    for shape in [[5, 1000], [3, 20_000]] {
        let mut sums = Sums::random::<O>(&shape, 1, DType::F32, Some(DType::F32), &mut random);
        sums.data.x = Values::of(&shape, DType::F32, |_| 100.0 + random.normal());
        check(op, &sums, Used::Both, &device, &mut report);
    }
    report.finish();
}

/// The residual takes x away, but for what the rounding of either leaves: rows of zeros, and nearly so.
fn cancelled<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("cancelled"), Report::default());
    for rest in [0.0, 1e-6] {
        for shape in [[5, 100], [3, 20_000]] {
            let mut sums = Sums::random::<O>(&shape, 1, DType::F32, None, &mut random);
            let x = &sums.data.x;
            sums.residual = Values::of(&shape, DType::F32, |i| rest * random.normal() - x.data[i]);
            check(op, &sums, Used::Both, &device, &mut report);
        }
    }
    report.finish();
}
