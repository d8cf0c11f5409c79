//! Losses on the graph.

use super::Inputs;
use crate::{
    compare::{Report, same_bits},
    deliver::deliver,
    device,
    op::dtypes,
    random::Random,
    softmax::Softmax,
    values::Values,
};
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_fused::{CrossEntropyOptions, cross_entropy};

const SMOOTH: CrossEntropyOptions =
    CrossEntropyOptions { ignore_index: Some(2), label_smoothing: 0.1 };

#[test]
fn tracked_where_logits_are() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("tracked_where_logits_are");
    let types = (DType::F32, Some(DType::F32));
    let inputs = Inputs::random([5, 33], types.0, types.1, SMOOTH, &mut random);
    let expected = inputs.run(&device);
    // On a device without autodiff, and with it but untracked.
    for device in [device.clone(), device.autodiff()] {
        let (logits, targets) = (inputs.logits.tensor::<2>(&device), inputs.targets(&device));
        let losses = cross_entropy(logits, targets, inputs.weights(&device), SMOOTH);
        assert!(!losses.is_tracked());
        same_bits("losses", &expected.losses, &losses.into_data()).unwrap();
    }
}

/// Logits are recomputed: those of a multiplication, which needs its factors again.
#[test]
fn same_bits_when_recomputed() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("same_bits_when_recomputed"), Report::default());
    let plain = device.autodiff();
    for dtype in dtypes::<Softmax>(&plain) {
        let inputs = Inputs::random([37, 257], dtype, Some(dtype), SMOOTH, &mut random);
        let factors = Values::normal(&[37, 257], dtype, &mut random);
        let run = |device: &Device| -> [TensorData; 2] {
            let leaf = |values: &Values| values.tensor::<2>(device).require_grad();
            let (x, s) = (leaf(&inputs.logits), leaf(&factors));
            let logits = x.clone() * s.clone();
            let targets = inputs.targets(device);
            let losses = cross_entropy(logits, targets, inputs.weights(device), SMOOTH);
            let gradients = deliver(losses, inputs.grads.tensor(device)).backward();
            [x, s].map(|leaf: Tensor<2>| leaf.grad(&gradients).unwrap().into_data())
        };
        let (kept, again) = (run(&plain), run(&plain.clone().gradient_checkpointing()));
        let verdicts = [("dx", 0), ("ds", 1)].map(|(name, i)| same_bits(name, &kept[i], &again[i]));
        report.add(&inputs, verdicts);
    }
    report.finish();
}

/// The mean of losses, as a training loop has it.
#[test]
fn mean_of_losses() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("mean_of_losses");
    let mut inputs =
        Inputs::random([32, 50], DType::F32, None, CrossEntropyOptions::default(), &mut random);
    inputs.grads = Values::of(&[32], DType::F32, |_| 1.0 / 32.0);
    let expected = inputs.run(&device);
    let logits = inputs.logits.tensor::<2>(&device).autodiff().require_grad();
    let losses = cross_entropy(logits.clone(), inputs.targets(&device), None, inputs.options);
    let gradients = losses.mean().backward();
    let dlogits = logits.grad(&gradients).unwrap().into_data();
    same_bits("dlogits", &expected.dlogits, &dlogits).unwrap();
}
