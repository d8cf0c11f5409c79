//! Inputs as they lie and in any order, and buffers that are written over.

use super::Inputs;
use crate::{
    buffer::noted,
    compare::{Report, same_bits},
    deliver::deliver,
    device,
    random::Random,
    values::{Values, exact},
};
use burn::tensor::{DType, IntDType, Tensor};
use burn_fused::{CrossEntropyOptions, cross_entropy};

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

/// The gradient lies where logits did that nothing else uses; logits that are held stay as they are.
#[test]
fn logits_are_written_over_or_left_alone() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("logits_are_written_over");
    for columns in [64, 257, 20_000] {
        let inputs = Inputs::random([5, columns], DType::F32, None, SMOOTH, &mut random);
        let expected = inputs.run(&device);
        // Not a leaf, which is held for its gradient.
        let leaf = inputs.logits.tensor::<2>(&device).autodiff().require_grad();
        let (logits, before) = noted(leaf.clone().mul_scalar(1.0).inner());
        let logits = logits.autodiff().require_grad();
        device.sync().unwrap();
        let held = logits.clone();
        let losses = cross_entropy(logits, inputs.targets(&device), None, inputs.options);
        let gradients = deliver(losses, inputs.grads.tensor(&device)).backward();
        let dlogits = held.grad(&gradients).expect("they are tracked");
        let (dlogits, after) = noted(dlogits);
        same_bits("dlogits", &expected.dlogits, &dlogits.into_data()).unwrap();
        same_bits("logits", &inputs.logits.data(), &held.inner().into_data()).unwrap();
        let place = |note: crate::buffer::Note| *note.lock().unwrap();
        if device::name() != "flex" {
            assert_ne!(place(before), place(after), "{inputs}");
        }
    }
}
