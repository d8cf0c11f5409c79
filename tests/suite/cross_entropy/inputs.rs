//! Inputs as they lie and in any order, and buffers that are written over.

use super::Inputs;
use crate::{
    buffer::{Note, noted},
    compare::{Report, same_bits},
    device,
    random::Random,
    values::{Values, exact},
};
use burn::{
    backend::Dispatch,
    tensor::{DType, IntDType, Tensor},
};
use burn_fused::{
    CrossEntropyOptions, cross_entropy_execution,
    ops::{CrossEntropyOps, OptionalTensor},
    rms_norm_execution,
};

const SMOOTH: CrossEntropyOptions =
    CrossEntropyOptions { ignore_index: Some(2), label_smoothing: 0.1 };

/// Parts and transposes of other tensors, and targets with a step.
#[test]
fn views() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("views"), Report::default());
    for columns in [33, 64, 5000] {
        let dtypes = (DType::F32, Some(DType::F32));
        let inputs = Inputs::random([6, columns], dtypes.0, dtypes.1, SMOOTH, &mut random);
        let dense = inputs.run(&device);
        report.add(&inputs, inputs.check(&dense));
        let logits = inputs.logits.tensor::<2>(&device);
        let targets = || inputs.targets(&device);
        let other = |shape: [usize; 2]| Tensor::<2>::full(shape, f32::NAN, &device);
        let below = Tensor::cat(vec![other([64, columns]), logits.clone(), other([1, columns])], 0);
        let beside = Tensor::cat(vec![other([6, 64]), logits.clone(), other([6, 64])], 1);
        let odd = Tensor::cat(vec![other([6, 3]), logits.clone()], 1);
        for (case, view) in [
            ("rows of another", below.narrow(0, 64, 6)),
            ("columns of another", beside.narrow(1, 64, columns)),
            ("columns of another, not aligned", odd.narrow(1, 3, columns)),
            ("transposed", logits.clone().transpose().mul_scalar(1.0).transpose()),
        ] {
            let found = inputs.run_on(view, targets(), &device);
            report.add(format!("{inputs} {case}"), inputs.check(&found));
            if device::keeps_bits() {
                report.add(format!("{inputs} {case}"), found.same_bits(&dense));
            }
        }
        for dtype in [IntDType::I64, IntDType::I32, IntDType::U32, IntDType::I16] {
            let supported = device.supports_dtype(dtype);
            if supported {
                let found = inputs.run_on(logits.clone(), targets().cast(dtype), &device);
                report.add(format!("{inputs} targets {dtype:?}"), inputs.check(&found));
            }
        }
    }
    report.finish();
}

/// A row's loss and gradient are its own.
#[test]
fn rows_in_another_order() {
    let Some(device) = device::open() else { return };
    if !device::keeps_bits() {
        return println!("skipped: {} promises no bits", device::name());
    }
    let mut random = Random::of("rows_in_another_order");
    for columns in [100, 20_000] {
        let inputs = Inputs::random([9, columns], DType::F32, None, SMOOTH, &mut random);
        let order = random.permutation(9);
        let pick = |values: &[f64], columns: usize| -> Vec<f64> {
            let rows = order.iter().map(|row| &values[row * columns..(row + 1) * columns]);
            rows.flatten().copied().collect()
        };
        let moved = Inputs {
            logits: Values::new(&[9, columns], DType::F32, pick(&inputs.logits.data, columns)),
            targets: order.iter().map(|row| inputs.targets[*row]).collect(),
            grads: Values::new(&[9], DType::F32, pick(&inputs.grads.data, 1)),
            ..inputs.clone()
        };
        let (found, expected) = (moved.run(&device), inputs.run(&device));
        assert_eq!(exact(&found.losses), pick(&exact(&expected.losses), 1));
        assert_eq!(exact(&found.dlogits), pick(&exact(&expected.dlogits), columns));
    }
}

/// The gradient lies where logits did that nothing else uses.
#[test]
fn logits_are_written_over() {
    let Some(device) = device::open() else { return };
    if device::name() == "flex" {
        return println!("skipped: there are no kernels for flex");
    }
    let mut random = Random::of("logits_are_written_over");
    for columns in [64, 257, 20_000] {
        let inputs = Inputs::random([5, columns], DType::F32, None, SMOOTH, &mut random);
        let expected = inputs.run(&device);
        let (logits, before) = noted(inputs.logits.tensor::<2>(&device));
        // Until it has arrived the upload holds the buffer as well.
        device.sync().unwrap();
        let (logits, targets) = (logits.into_dispatch(), inputs.targets(&device).into_dispatch());
        let none = || OptionalTensor::None;
        let (of_forward, own) = (logits.clone(), targets.clone());
        let saved = Dispatch::cross_entropy_forward(of_forward, own, none(), SMOOTH).saved;
        let grad = inputs.grads.tensor::<1>(&device).into_dispatch();
        let dlogits =
            Dispatch::cross_entropy_backward(logits, targets, none(), saved, grad, SMOOTH);
        let (dlogits, after) = noted(Tensor::<2>::from_dispatch(dlogits));
        same_bits("dlogits", &expected.dlogits, &dlogits.into_data()).unwrap();
        let place = |note: Note| note.lock().unwrap().expect("a buffer was seen");
        assert_eq!(place(before), place(after), "{inputs}");
    }
}

#[test]
fn held_logits_are_left_alone() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("held_logits_are_left_alone");
    for columns in [64, 257, 20_000] {
        let inputs = Inputs::random([5, columns], DType::F32, None, SMOOTH, &mut random);
        let logits = inputs.logits.tensor::<2>(&device);
        let found = inputs.run_on(logits.clone(), inputs.targets(&device), &device);
        let verdicts: Result<Vec<_>, _> = inputs.check(&found).into_iter().collect();
        verdicts.unwrap();
        same_bits("logits", &inputs.logits.data(), &logits.into_data()).unwrap();
    }
}

#[test]
fn execution() {
    let Some(device) = device::open() else { return };
    let logits = Tensor::<2>::zeros([3, 4], &device);
    let execution = cross_entropy_execution(&logits).unwrap();
    let expected = rms_norm_execution(&logits, None::<&Tensor<1>>).unwrap();
    assert_eq!(execution.path, expected.path);
    assert_eq!(execution.accumulator, expected.accumulator);
    assert!(cross_entropy_execution(&Tensor::<2>::zeros([3, 0], &device)).is_err());
}
