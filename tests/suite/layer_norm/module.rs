//! The module beside `burn::nn`'s.

use super::LayerNorm as Op;
use crate::{device, nn, panics, values::exact};
use burn::{
    config::Config,
    module::Module,
    nn as burns_nn,
    tensor::{Device, Tensor},
};
use burn_fused::nn::LayerNormConfig;

#[test]
fn config_is_that_of_burn() {
    let (own, burns) = (LayerNormConfig::new(6), burns_nn::LayerNormConfig::new(6));
    assert_eq!(own.to_string(), burns.to_string());
    assert_eq!((own.d_model, own.epsilon, own.bias), (burns.d_model, burns.epsilon, burns.bias));
    let (own, burns) = (own.with_epsilon(0.5), burns.with_epsilon(0.5));
    let (own, burns) = (own.with_bias(false), burns.with_bias(false));
    assert_eq!((own.epsilon, own.bias), (0.5, false));
    let loaded = LayerNormConfig::load_binary(burns.to_string().as_bytes()).unwrap();
    assert_eq!(loaded.to_string(), own.to_string());
}

#[test]
fn starts_and_shows_as_burn_does() {
    let Some(device) = device::open() else { return };
    for bias in [true, false] {
        let own = LayerNormConfig::new(6).with_bias(bias).init(&device);
        let burns = burns_nn::LayerNormConfig::new(6).with_bias(bias).init(&device);
        assert_eq!(own.to_string(), burns.to_string());
        assert_eq!(own.num_params(), burns.num_params());
        assert_eq!(own.epsilon, 1e-5);
        assert_eq!(exact(&own.gamma.val().into_data()), [1.0; 6]);
        let beta = own.beta.map(|beta| exact(&beta.val().into_data()));
        assert_eq!(beta, bias.then(|| vec![0.0; 6]));
    }
}

/// Burn's does not refuse an epsilon where it is made; a call does, with this crate's error.
#[test]
fn epsilon_is_refused_by_the_call() {
    let Some(device) = device::open() else { return };
    let x = || Tensor::<2>::ones([2, 6], &device);
    for epsilon in [-1e-5, f64::NAN] {
        burns_nn::LayerNormConfig::new(6).with_epsilon(epsilon).init(&device);
        let own = LayerNormConfig::new(6).with_epsilon(epsilon).init(&device);
        let message = panics::message(|| own.forward(x()));
        let expected =
            format!("layer_norm: `epsilon` must be finite and not negative, found {epsilon}");
        assert_eq!(message, Some(expected));
    }
    let zero = LayerNormConfig::new(6).with_epsilon(0.0).init(&device);
    assert!(exact(&zero.forward(x()).into_data()).iter().all(|y| y.is_nan()));
}

#[test]
fn another_width_is_refused() {
    let Some(device) = device::open() else { return };
    let module = LayerNormConfig::new(3).init(&device);
    let message = panics::message(|| module.forward(Tensor::<2>::zeros([2, 4], &device)));
    let expected = "layer_norm: `gamma` must have the shape [4], found [3]";
    assert_eq!(message.as_deref(), Some(expected));
}

/// With an epsilon of its own, with bias and without.
#[test]
fn forward_is_the_function() {
    for bias in [true, false] {
        let config = |width| LayerNormConfig::new(width).with_epsilon(0.5).with_bias(bias);
        let make = |width, device: &Device| config(width).init(device);
        nn::forward_is_the_function(Op(0.5), make, &[true, bias]);
    }
}
