//! The module beside `burn::nn`'s.

use super::RmsNorm as Op;
use crate::{
    compare::Report,
    device,
    op::{Data, Outcome},
    panics,
    random::Random,
    values::exact,
};
use burn::{
    module::Module,
    nn,
    tensor::{DType, Tensor},
};
use burn_fused::nn::RmsNormConfig;

#[test]
fn config_is_that_of_burn() {
    let (own, burns) = (RmsNormConfig::new(6), nn::RmsNormConfig::new(6));
    assert_eq!(own.to_string(), burns.to_string());
    assert_eq!((own.d_model, own.epsilon), (burns.d_model, burns.epsilon));
    assert_eq!(own.with_epsilon(0.5).epsilon, 0.5);
}

#[test]
fn starts_as_ones_and_shows_as_burn_does() {
    let Some(device) = device::open() else { return };
    let own = RmsNormConfig::new(6).init(&device);
    let burns = nn::RmsNormConfig::new(6).init(&device);
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
        let burns = nn::RmsNormConfig::new(6).with_epsilon(epsilon);
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

/// Forwards and backwards, with weights of its own and an epsilon of its own.
#[test]
fn forward_is_the_function() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("forward_is_the_function"), Report::default());
    let shape = [5, 7, 33];
    let data = Data::random::<Op>(&shape, 1, DType::F32, Some(DType::F32), &mut random);
    let device = device.autodiff();
    let mut module = RmsNormConfig::new(33).with_epsilon(0.5).init(&device);
    let gamma = data.parameters[0].as_ref().expect("it is given").tensor::<1>(&device);
    module.gamma = module.gamma.map(|_| gamma.require_grad());
    let x = data.x.tensor::<3>(&device).require_grad();
    let y = module.forward(x.clone());
    let gradients = (y.clone() * data.dy.tensor(&device)).backward();
    let outcome = Outcome {
        dx: x.grad(&gradients).map(Tensor::into_data),
        parameters: vec![module.gamma.val().grad(&gradients).map(Tensor::into_data)],
        y: y.into_data(),
    };
    data.check(Op(0.5), &outcome, &mut report, "module");
    report.finish();
}
