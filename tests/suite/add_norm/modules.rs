//! The modules' methods are the functions, with the parameters and the epsilon of the module.

use crate::{compare::same_bits, device, random::Random, values::Values};
use burn::tensor::{DType, Device, Tensor};
use burn_fused::nn::{LayerNormConfig, RmsNormConfig};

type Pair = (Tensor<3>, Tensor<3>);

fn check(
    module: impl Fn(Tensor<3>, Tensor<3>) -> Pair,
    function: impl Fn(Tensor<3>, Tensor<3>) -> Pair,
    device: &Device,
) {
    let mut random = Random::of("modules");
    let [x, residual] = [(); 2].map(|()| Values::normal(&[2, 5, 33], DType::F32, &mut random));
    let run = |call: &dyn Fn(Tensor<3>, Tensor<3>) -> Pair| {
        let (y, sum) = call(x.tensor(device), residual.tensor(device));
        [y, sum].map(Tensor::into_data)
    };
    let (found, expected) = (run(&module), run(&function));
    same_bits("y", &expected[0], &found[0]).unwrap();
    same_bits("sum", &expected[1], &found[1]).unwrap();
}

fn weights(device: &Device) -> Tensor<1> {
    let mut random = Random::of("weights");
    Values::normal(&[33], DType::F32, &mut random).tensor(device)
}

#[test]
fn rms_norm() {
    let Some(device) = device::open() else { return };
    let mut module = RmsNormConfig::new(33).with_epsilon(0.5).init(&device);
    module.gamma = module.gamma.map(|_| weights(&device));
    let gamma = Some(weights(&device));
    check(
        |x, residual| module.forward_add(x, residual),
        |x, residual| burn_fused::add_rms_norm(x, residual, gamma.clone(), 0.5),
        &device,
    );
}

#[test]
fn layer_norm() {
    let Some(device) = device::open() else { return };
    for bias in [true, false] {
        let config = LayerNormConfig::new(33).with_epsilon(0.5).with_bias(bias);
        let mut module = config.init(&device);
        module.gamma = module.gamma.map(|_| weights(&device));
        module.beta = module.beta.map(|beta| beta.map(|_| weights(&device)));
        let (gamma, beta) = (Some(weights(&device)), bias.then(|| weights(&device)));
        check(
            |x, residual| module.forward_add(x, residual),
            |x, residual| burn_fused::add_layer_norm(x, residual, gamma.clone(), beta.clone(), 0.5),
            &device,
        );
    }
}
