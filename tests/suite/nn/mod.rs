//! What the tests of both modules share.

use crate::{
    compare::Report,
    device,
    op::{Data, Op, Outcome},
    random::Random,
    values::Values,
};
use burn::{
    module::{Module, ModuleDisplay, Param},
    nn,
    tensor::{DType, Device, Tensor},
};
use burn_fused::nn as fused;

mod model;
pub mod records;
mod transformer;

/// A norm along the last dimension, this crate's or Burn's.
pub trait Norm: Module + ModuleDisplay {
    /// Its parameters, in the order of [`Op::PARAMETERS`].
    fn parameters(&mut self) -> Vec<&mut Param<Tensor<1>>>;
    fn normalise(&self, x: Tensor<3>) -> Tensor<3>;
}

macro_rules! norm {
    ($($module:ident)::+, $parameters:expr) => {
        impl Norm for $($module)::+ {
            fn parameters(&mut self) -> Vec<&mut Param<Tensor<1>>> {
                let parameters: fn(&mut Self) -> Vec<&mut Param<Tensor<1>>> = $parameters;
                parameters(self)
            }

            fn normalise(&self, x: Tensor<3>) -> Tensor<3> {
                self.forward(x)
            }
        }
    };
}

norm!(fused::RmsNorm, |norm| vec![&mut norm.gamma]);
norm!(nn::RmsNorm, |norm| vec![&mut norm.gamma]);
norm!(fused::LayerNorm, |norm| [&mut norm.gamma].into_iter().chain(&mut norm.beta).collect());
norm!(nn::LayerNorm, |norm| [&mut norm.gamma].into_iter().chain(&mut norm.beta).collect());

/// Gives `norm` these weights.
pub fn set<N: Norm>(norm: &mut N, weights: &[Values], device: &Device) {
    let parameters = norm.parameters();
    assert_eq!(parameters.len(), weights.len());
    for (parameter, weights) in parameters.into_iter().zip(weights) {
        *parameter = parameter.clone().map(|_| weights.tensor(device));
    }
}

/// Forwards and backwards, with weights of its own. `make` gives a module of a width, and `op` is
/// what it should be; `given` says which parameters it has.
pub fn forward_is_the_function<O: Op, N: Norm>(
    op: O,
    make: impl Fn(usize, &Device) -> N,
    given: &[bool],
) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("forward_is_the_function"), Report::default());
    let mut data = Data::random::<O>(&[5, 7, 33], 1, DType::F32, Some(DType::F32), &mut random);
    for (parameter, given) in data.parameters.iter_mut().zip(given) {
        *parameter = parameter.take().filter(|_| *given);
    }
    let device = device.autodiff();
    let mut module = make(33, &device);
    let weights: Vec<_> = data.parameters.iter().flatten().cloned().collect();
    for (parameter, weights) in module.parameters().into_iter().zip(&weights) {
        *parameter = parameter.clone().map(|_| weights.tensor(&device).require_grad());
    }
    let x = data.x.tensor::<3>(&device).require_grad();
    let y = module.normalise(x.clone());
    let gradients = (y.clone() * data.dy.tensor(&device)).backward();
    let outcome = Outcome {
        dx: x.grad(&gradients).map(Tensor::into_data),
        parameters: module
            .parameters()
            .into_iter()
            .map(|parameter| parameter.val().grad(&gradients).map(Tensor::into_data))
            .collect(),
        y: y.into_data(),
    };
    data.check(op, &outcome, &mut report, "module");
    report.finish();
}
