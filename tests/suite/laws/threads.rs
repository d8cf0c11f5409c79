//! Threads that share a device don't meet each other's data.

use crate::{
    compare::Report,
    device,
    op::{Data, Op, Outcome},
    random::Random,
};
use burn::tensor::DType;
use std::thread;

pub fn four_at_once<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("four_at_once"), Report::default());
    let inputs: Vec<Vec<Data>> = (0..4)
        .map(|i| {
            // Two and two of one shape, which could take each other's buffers.
            let shape = [67, 257 * (1 + i / 2)];
            let mut data =
                || Data::random::<O>(&shape, 1, DType::F32, Some(DType::F32), &mut random);
            (0..12).map(|_| data()).collect()
        })
        .collect();
    let outcomes: Vec<Vec<Outcome>> = thread::scope(|scope| {
        let run = |data: &Data| data.run(op, &device);
        let threads: Vec<_> = inputs
            .iter()
            .map(|inputs| scope.spawn(move || inputs.iter().map(run).collect()))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread panicked")).collect()
    });
    for (data, outcome) in inputs.iter().flatten().zip(outcomes.iter().flatten()) {
        data.check(op, outcome, &mut report, "with three others");
    }
    report.finish();
}
