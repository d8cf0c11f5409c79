//! Rows of every length, as generation has them: one more in each step.

use super::{LogSoftmax, Softmax};
use crate::{
    compare::Report,
    device,
    op::{Data, Op},
    random::Random,
};
use burn::tensor::DType;

const LONGEST: usize = 4096;

/// All on a fast device; elsewhere a random sample, and both ends.
fn every_length<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("every_length"), Report::default());
    let sampled = if device::is_fast() { LONGEST } else { 150 };
    let sample: Vec<_> = random.permutation(LONGEST).into_iter().take(sampled).collect();
    for columns in sample.into_iter().map(|i| i + 1).chain([1, LONGEST]) {
        let data = Data::random::<O>(&[3, columns], 1, DType::F32, None, &mut random);
        data.check(op, &data.run(op, &device), &mut report, "");
    }
    report.finish();
}

#[test]
fn every_length_of_softmax() {
    every_length(Softmax(-1));
}

#[test]
fn every_length_of_log_softmax() {
    every_length(LogSoftmax(-1));
}
