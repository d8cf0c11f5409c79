//! Scores and biases on the graph.

use super::{Found, Inputs};
use crate::{
    compare::{Report, same_bits},
    deliver::deliver,
    device,
    random::Random,
    values::{Values, exact},
};
use burn::tensor::{Bool, DType, Device, Tensor, TensorData, activation};
use burn_fused::{AttentionSoftmaxOptions, attention_softmax};

const OPTIONS: AttentionSoftmaxOptions = AttentionSoftmaxOptions { scale: 0.25, causal: Some(7) };

fn inputs(test: &str) -> Inputs {
    let mut random = Random::of(test);
    let inputs = Inputs::random(&[3, 5, 33], DType::F32, OPTIONS, &mut random);
    let inputs = inputs.with_mask(&[3, 1, 33], &mut random);
    inputs.with_bias(&[1, 5, 33], DType::F32, &mut random)
}

/// Either, both or none.
#[test]
fn only_what_is_tracked() {
    let Some(device) = device::open() else { return };
    let (inputs, mut report) = (inputs("only_what_is_tracked"), Report::default());
    let expected = inputs.run::<3>(&device);
    for (of_x, of_bias) in [(false, false), (true, false), (false, true), (true, true)] {
        let device = device.clone().autodiff();
        let leaf = |values: &Values, tracked| {
            let tensor = values.tensor::<3>(&device);
            if tracked { tensor.require_grad() } else { tensor }
        };
        let x = leaf(&inputs.x, of_x);
        let bias = leaf(inputs.bias.as_ref().unwrap(), of_bias);
        let mask = inputs.mask.as_ref().map(|mask| mask.tensor(&device));
        let y = attention_softmax(x.clone(), mask, Some(bias.clone()), OPTIONS);
        assert_eq!(y.is_tracked(), of_x || of_bias);
        if !y.is_tracked() {
            report.add(&inputs, [same_bits("y", &expected.y, &y.into_data())]);
            continue;
        }
        let gradients = deliver(y.clone(), inputs.dy.tensor(&device)).backward();
        let of = |leaf: &Tensor<3>| leaf.grad(&gradients).map(Tensor::into_data);
        let found = Found { y: y.into_data(), dx: of(&x), dbias: of(&bias) };
        let expected = Found {
            y: expected.y.clone(),
            dx: expected.dx.clone().filter(|_| of_x),
            dbias: expected.dbias.clone().filter(|_| of_bias),
        };
        report.add(format!("{inputs}, tracked {of_x} {of_bias}"), found.same_bits(&expected));
    }
    report.finish();
}

/// Scores are recomputed: those of a multiplication, which needs its factors again.
#[test]
fn same_bits_when_recomputed() {
    let Some(device) = device::open() else { return };
    let inputs = inputs("same_bits_when_recomputed");
    let factors = Values::normal(&inputs.x.shape, DType::F32, &mut Random::of("factors"));
    let run = |device: &Device| -> [TensorData; 3] {
        let leaf = |values: &Values| values.tensor::<3>(device).require_grad();
        let (x, s, bias) = (leaf(&inputs.x), leaf(&factors), leaf(inputs.bias.as_ref().unwrap()));
        let mask = inputs.mask.as_ref().map(|mask| mask.tensor(device));
        let y = attention_softmax(x.clone() * s.clone(), mask, Some(bias.clone()), OPTIONS);
        // Used twice, the second time by an op that is recomputed.
        let used = y.clone() * y;
        let gradients = deliver(used, inputs.dy.tensor(device)).backward();
        [x, s, bias].map(|leaf| leaf.grad(&gradients).unwrap().into_data())
    };
    let plain = device.autodiff();
    let (kept, again) = (run(&plain), run(&plain.clone().gradient_checkpointing()));
    for (i, name) in ["dx", "ds", "dbias"].into_iter().enumerate() {
        same_bits(name, &kept[i], &again[i]).unwrap();
    }
}

/// Between Burn's own operations, where Fusion has its part.
#[test]
fn among_other_operations() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("among_other_operations");
    let device = device.autodiff();
    let shape = [2, 3, 16, 16];
    let mut leaf =
        || Values::normal(&shape, DType::F32, &mut random).tensor::<4>(&device).require_grad();
    let (query, key, value) = (leaf(), leaf(), leaf());
    let options = AttentionSoftmaxOptions { scale: 0.25, causal: Some(0) };
    let weights = |fused: bool| {
        let scores = query.clone() * key.clone() + 1.0;
        if fused {
            return attention_softmax(scores, None, None, options);
        }
        let hidden = Tensor::<2, Bool>::tril_mask([16, 16], 0, &device);
        let scores = scores.mul_scalar(options.scale).mask_fill(hidden.unsqueeze(), -1e30);
        activation::softmax(scores, 3)
    };
    let [found, expected] = [true, false].map(|fused| {
        let out = weights(fused) * value.clone();
        let gradients = (out.clone() * out.clone()).sum().backward();
        let of = |leaf: &Tensor<4>| leaf.grad(&gradients).unwrap().into_data();
        [out.inner().into_data(), of(&query), of(&key), of(&value)]
    });
    for (found, expected) in found.iter().zip(&expected) {
        for (found, expected) in exact(found).iter().zip(exact(expected)) {
            let bound = 1e-5 * expected.abs().max(1.0);
            assert!((found - expected).abs() <= bound, "{found} and {expected}");
        }
    }
}
