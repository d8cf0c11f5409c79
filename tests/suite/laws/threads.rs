//! Threads that share a device don't meet each other's data.

use crate::{
    compare::{Report, same_bits},
    deliver::deliver,
    device,
    op::{Data, Op, Outcome, differentiate},
    random::Random,
    values::Values,
};
use burn::tensor::{DType, Tensor};
use std::{sync::mpsc::channel, thread};

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
        let slow = |values: &Values| slowly(values.tensor::<2>(&device));
        let [x, dy] = thread::scope(|scope| {
            let threads = [&data.x, &data.dy].map(|values| scope.spawn(move || slow(values)));
            threads.map(|thread| thread.join().expect("a thread panicked"))
        });
        let outcome = differentiate(op, x, data.parameters::<1>(&device), dy);
        data.check(op, &outcome, &mut report, "from another thread");
    }
    report.finish();
}

/// The same tensor, after work that is asked for sooner than done.
fn slowly(tensor: Tensor<2>) -> Tensor<2> {
    // Minus twice, which is every float itself.
    (0..50).fold(tensor, |tensor, _| tensor.neg().neg())
}

/// Threads in a row, each with a stream of its own, call the op on what the one before hands on while
/// that is still being computed: the bits are those of one thread that does it all.
pub fn from_hand_to_hand<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("from_hand_to_hand"), Report::default());
    let (hands, items) = if device::is_fast() { (16, 32) } else { (4, 6) };
    let shape = [if device::is_fast() { 4096 } else { 67 }, 257];
    let data: Vec<_> = (0..items)
        .map(|_| Data::random::<O>(&shape, 1, DType::F32, Some(DType::F32), &mut random))
        .collect();
    let parameters = data[0].parameters::<1>(&device);
    let step = |x: Tensor<2>| op.forward(slowly(x), parameters.clone());
    let leaf = |data: &Data| data.x.tensor::<2>(&device).autodiff().require_grad();
    let finish = |x: Tensor<2>, y: Tensor<2>, data: &Data| {
        let gradients = deliver(y.clone(), data.dy.tensor(&device)).backward();
        let dx = x.grad(&gradients).map(Tensor::into_data);
        Outcome { y: y.into_data(), dx, parameters: vec![] }
    };
    let alone = data.iter().map(|data| {
        let x = leaf(data);
        finish(x.clone(), (0..hands).fold(x, |x, _| step(x)), data)
    });
    let alone: Vec<_> = alone.collect();
    let handed: Vec<Outcome> = thread::scope(|scope| {
        let (first, mut last) = channel();
        for _ in 0..hands {
            let (next, received) = channel();
            let from = std::mem::replace(&mut last, received);
            scope.spawn(move || from.iter().all(|x| next.send(step(x)).is_ok()));
        }
        let leaves: Vec<_> = data.iter().map(leaf).collect();
        leaves.iter().for_each(|x| first.send(x.clone()).expect("the threads are there"));
        drop(first);
        let ends = leaves.into_iter().zip(last).zip(&data);
        ends.map(|((x, y), data)| finish(x, y, data)).collect()
    });
    assert_eq!(handed.len(), items, "some were lost on the way");
    for (i, (alone, handed)) in alone.iter().zip(&handed).enumerate() {
        report.add(format!("{} {i}", O::NAME), handed.same_bits::<O>(alone));
    }
    report.finish();
}

/// Threads in a row call the op on an untracked tensor that moves from one to the next, so that each could write
/// its result over memory of the first one's stream: the bits are those of one thread that does it all.
pub fn moved_from_hand_to_hand<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("moved_from_hand_to_hand"), Report::default());
    for hands in [1, 2, 4] {
        let data = Data::random::<O>(&[67, 257], 1, DType::F32, Some(DType::F32), &mut random);
        let parameters = data.parameters::<1>(&device);
        let step = |x: Tensor<2>| op.forward(x, parameters.clone());
        let x = || data.x.tensor::<2>(&device);
        let alone = (0..hands).fold(x(), |x, _| step(x)).into_data();
        let x = x();
        // Until it has arrived the upload holds the buffer as well.
        device.sync().unwrap();
        let handed = (0..hands).fold(x, |x, _| {
            thread::scope(|scope| scope.spawn(|| step(x)).join().expect("a thread panicked"))
        });
        let verdict = same_bits("y", &alone, &handed.into_data());
        report.add(format!("{} by {hands} {data}", O::NAME), vec![verdict]);
    }
    report.finish();
}
