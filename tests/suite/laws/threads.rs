//! Threads that share a device don't meet each other's data.

use crate::{
    compare::Report,
    device,
    op::{Data, Op, Outcome, differentiate},
    random::Random,
    values::Values,
};
use burn::tensor::{DType, Tensor};
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

/// x is still being computed, on another thread and so in another stream, when the op is called.
pub fn input_from_another_thread<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("input_from_another_thread");
    let mut report = Report::default();
    let rows = if device::is_fast() { 16_384 } else { 67 };
    for _ in 0..8 {
        let shape = [rows, 257];
        let data = Data::random::<O>(&shape, 1, DType::F32, Some(DType::F32), &mut random);
        let slow = |values: &Values| {
            let tensor = values.tensor::<2>(&device);
            // Minus twice, which is every float itself.
            (0..50).fold(tensor, |tensor: Tensor<2>, _| tensor.neg().neg())
        };
        let [x, dy] = thread::scope(|scope| {
            let threads = [&data.x, &data.dy].map(|values| scope.spawn(move || slow(values)));
            threads.map(|thread| thread.join().expect("a thread panicked"))
        });
        let outcome = differentiate(op, x, data.parameters::<1>(&device), dy);
        data.check(op, &outcome, &mut report, "from another thread");
    }
    report.finish();
}
