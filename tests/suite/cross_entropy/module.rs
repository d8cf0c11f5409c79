//! The module beside `burn::nn::loss`'s.

use crate::{
    device, panics,
    random::Random,
    values::{Values, exact},
};
use burn::{
    nn::loss as burns,
    tensor::{DType, Int, Tensor, TensorData},
};
use burn_fused::nn::loss::CrossEntropyLossConfig;

/// The mean and the logits' gradient, with every mixture of pads, weights and smoothing.
#[test]
fn means_and_gradients_are_burns() {
    let Some(device) = device::open() else { return };
    let device = device.autodiff();
    let mut random = Random::of("means_and_gradients_are_burns");
    let [rows, classes] = [40, 11];
    let pads = [None, Some(vec![3]), Some(vec![0, 7, 9])];
    for (pad, weighted, smoothing) in pads.iter().flat_map(|pad| {
        [(false, None), (true, None), (false, Some(0.2)), (true, Some(0.2))]
            .map(|(weighted, smoothing)| (pad.clone(), weighted, smoothing))
    }) {
        let weights: Option<Vec<f32>> =
            weighted.then(|| (0..classes).map(|_| 0.5 + random.uniform() as f32).collect());
        let logits = Values::normal(&[rows, classes], DType::F32, &mut random);
        let targets: Vec<i64> = (0..rows).map(|_| random.below(classes) as i64).collect();
        let run = |loss: &dyn Fn(Tensor<2>, Tensor<1, Int>) -> Tensor<1>| {
            let logits = logits.tensor::<2>(&device).require_grad();
            let targets = TensorData::new(targets.clone(), [rows]);
            let mean = loss(logits.clone(), Tensor::from_data(targets, &device));
            let gradient = logits.grad(&mean.backward()).expect("they are tracked");
            (exact(&mean.into_data()), exact(&gradient.into_data()))
        };
        let own = CrossEntropyLossConfig::new()
            .with_pad_tokens(pad.clone())
            .with_weights(weights.clone())
            .with_smoothing(smoothing)
            .init(&device);
        let theirs = burns::CrossEntropyLossConfig::new()
            .with_pad_tokens(pad.clone())
            .with_weights(weights)
            .with_smoothing(smoothing)
            .init(&device);
        let (mean, gradient) = run(&|logits, targets| own.forward(logits, targets));
        let (burns_mean, burns_gradient) = run(&|logits, targets| theirs.forward(logits, targets));
        let case = format!("pads {pad:?}, weights {weighted}, smoothing {smoothing:?}");
        assert!((mean[0] - burns_mean[0]).abs() < 1e-5, "{case}: {mean:?}, {burns_mean:?}");
        for (own, burns) in gradient.iter().zip(&burns_gradient) {
            assert!((own - burns).abs() < 1e-6, "{case}: {own} and {burns}");
        }
    }
}

/// Nor is its weight looked up.
#[test]
fn a_pad_may_be_no_class() {
    let Some(device) = device::open() else { return };
    let config = CrossEntropyLossConfig::new().with_weights(Some(vec![1.0, 3.0]));
    let loss = config.with_pad_tokens(Some(vec![1000])).init(&device);
    let targets = Tensor::<1, Int>::from_ints([1, 1000, 0], &device);
    let mean = exact(&loss.forward(Tensor::zeros([3, 2], &device), targets).into_data());
    assert!((mean[0] - 2f64.ln()).abs() < 1e-6, "{mean:?}");
}

#[test]
fn only_pads_give_nan() {
    let Some(device) = device::open() else { return };
    let loss = CrossEntropyLossConfig::new().with_pad_tokens(Some(vec![1])).init(&device);
    let targets = Tensor::<1, Int>::ones([3], &device);
    let mean = exact(&loss.forward(Tensor::zeros([3, 4], &device), targets).into_data());
    assert!(mean[0].is_nan(), "{mean:?}");
}

#[test]
fn refuses_what_burn_does() {
    let Some(device) = device::open() else { return };
    for (smoothing, weights) in [(Some(1.5), None), (None, Some(vec![1.0, 0.0]))] {
        let own =
            CrossEntropyLossConfig::new().with_smoothing(smoothing).with_weights(weights.clone());
        let theirs =
            burns::CrossEntropyLossConfig::new().with_smoothing(smoothing).with_weights(weights);
        let message = panics::message(|| own.init(&device));
        assert!(message.is_some());
        assert_eq!(message, panics::message(|| theirs.init(&device)));
    }
}
