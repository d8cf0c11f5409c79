//! The module beside `burn::nn`'s.

use super::RmsNorm as Op;
use crate::{device, nn, panics, values::exact};
use burn::{
    config::Config,
    module::Module,
    nn as burns_nn,
    tensor::{Device, Tensor},
};
use burn_fused::nn::RmsNormConfig;

#[test]
fn config_is_that_of_burn() {
    let (own, burns) = (RmsNormConfig::new(6), burns_nn::RmsNormConfig::new(6));
    assert_eq!(own.to_string(), burns.to_string());
    assert_eq!((own.d_model, own.epsilon), (burns.d_model, burns.epsilon));
    let loaded = RmsNormConfig::load_binary(burns.to_string().as_bytes()).unwrap();
    assert_eq!(loaded.to_string(), own.to_string());
    assert_eq!(own.with_epsilon(0.5).epsilon, 0.5);
}

#[test]
fn starts_as_ones_and_shows_as_burn_does() {
    let Some(device) = device::open() else { return };
    let own = RmsNormConfig::new(6).init(&device);
    let burns = burns_nn::RmsNormConfig::new(6).init(&device);
    assert_eq!(own.to_string(), burns.to_string());
    assert_eq!(own.num_params(), burns.num_params());
    assert_eq!(own.epsilon, burns.epsilon);
    assert_eq!(exact(&own.gamma.val().into_data()), [1.0; 6]);
}

#[test]
fn epsilon_must_be_positive() {
    let Some(device) = device::open() else { return };
    for epsilon in [0.0, -1e-5, f64::NAN] {
        let own = RmsNormConfig::new(6).with_epsilon(epsilon);
        let burns = burns_nn::RmsNormConfig::new(6).with_epsilon(epsilon);
        let message = panics::message(|| own.init(&device));
        assert_eq!(message.as_deref(), Some("epsilon must be positive."));
        assert_eq!(message, panics::message(|| burns.init(&device)));
    }
}

#[test]
fn another_width_is_refused() {
    let Some(device) = device::open() else { return };
    let module = RmsNormConfig::new(3).init(&device);
    let message = panics::message(|| module.forward(Tensor::<2>::zeros([2, 4], &device)));
    let expected = "rms_norm: `gamma` must have the shape [4], found [3]";
    assert_eq!(message.as_deref(), Some(expected));
}

/// With an epsilon of its own.
#[test]
fn forward_is_the_function() {
    let make = |width, device: &Device| RmsNormConfig::new(width).with_epsilon(0.5).init(device);
    nn::forward_is_the_function(Op(0.5), make, &[true]);
}
