//! The ops as Burn's users call them, this crate's and Burn's own, with autodiff and without.

use crate::{
    machine::Machine,
    op::{self, Op},
};
use burn::{
    module::Param,
    nn,
    tensor::{Bool, DType, Device, Distribution, FloatDType, Int, Tensor, activation},
};
use burn_fused::nn::loss;

/// Whose op is called.
#[derive(Clone, Copy, PartialEq)]
pub enum Peer {
    BurnFused,
    Burn,
}

impl Peer {
    /// As results name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::BurnFused => "burn-fused",
            Self::Burn => "burn",
        }
    }
}

/// Microseconds of a call.
pub struct Times {
    /// Forward, as in inference.
    pub forward: f64,
    /// Forward and backward, with the gradients of all inputs, of a gradient of ones, which is taken off.
    pub both: f64,
    /// The host's for a forward call.
    pub host: f64,
}

pub fn time(machine: &Machine, peer: Peer, op: Op, dtype: FloatDType, shape: [usize; 3]) -> Times {
    let device = Device::new(machine.cube.clone());
    let normal = Distribution::Normal(0.0, 1.0);
    let inputs: Vec<Tensor<3>> = (0..machine.sets(dtype, &shape))
        .map(|_| Tensor::random(shape, normal, (&device, DType::from(dtype))))
        .collect();
    let parameters: [Tensor<1>; 2] =
        [(); 2].map(|()| Tensor::random([shape[2]], normal, (&device, DType::from(dtype))));
    let residual = Tensor::random(shape, normal, (&device, DType::from(dtype)));
    let call = caller(peer, op, parameters.clone(), residual.clone());
    let forward = |i: usize| drop(call(inputs[i % inputs.len()].clone()));
    let [forward_time, host] = [machine.timer.queued(forward), machine.timer.host(forward)];

    let tracked: Vec<_> = inputs.into_iter().map(|x| x.autodiff().require_grad()).collect();
    let parameters = parameters.map(|p| p.autodiff().require_grad());
    let call = caller(peer, op, parameters, residual.autodiff().require_grad());
    let both = machine.timer.queued(|i| {
        drop(call(tracked[i % tracked.len()].clone()).backward());
    });
    // The gradient that the backward pass begins with is no part of the op.
    let begins = call(tracked[0].clone()).dims();
    let ones = machine.timer.queued(|_| {
        drop(Tensor::<3>::ones(begins, (&device, DType::from(dtype))));
    });
    Times { forward: forward_time, both: (both - ones).max(0.0), host }
}

/// Of a sum and its norm both outputs are used, by an addition.
fn caller(
    peer: Peer,
    op: Op,
    [gamma, beta]: [Tensor<1>; 2],
    residual: Tensor<3>,
) -> Box<dyn Fn(Tensor<3>) -> Tensor<3>> {
    match (op, peer) {
        (Op::RmsNorm, Peer::BurnFused) => {
            Box::new(move |x| burn_fused::rms_norm(x, Some(gamma.clone()), 1e-5))
        }
        (Op::RmsNorm, Peer::Burn) => {
            let norm = burns_rms_norm(gamma);
            Box::new(move |x| norm.forward(x))
        }
        (Op::AddRmsNorm, Peer::BurnFused) => Box::new(move |x| {
            let gamma = Some(gamma.clone());
            let (y, sum) = burn_fused::add_rms_norm(x, residual.clone(), gamma, 1e-5);
            y + sum
        }),
        (Op::AddRmsNorm, Peer::Burn) => {
            let norm = burns_rms_norm(gamma);
            Box::new(move |x| {
                let sum = x + residual.clone();
                norm.forward(sum.clone()) + sum
            })
        }
        (Op::LayerNorm, Peer::BurnFused) => Box::new(move |x| {
            burn_fused::layer_norm(x, Some(gamma.clone()), Some(beta.clone()), 1e-5)
        }),
        (Op::LayerNorm, Peer::Burn) => {
            let norm = burns_layer_norm(gamma, beta);
            Box::new(move |x| norm.forward(x))
        }
        (Op::AddLayerNorm, Peer::BurnFused) => Box::new(move |x| {
            let (gamma, beta) = (Some(gamma.clone()), Some(beta.clone()));
            let (y, sum) = burn_fused::add_layer_norm(x, residual.clone(), gamma, beta, 1e-5);
            y + sum
        }),
        (Op::AddLayerNorm, Peer::Burn) => {
            let norm = burns_layer_norm(gamma, beta);
            Box::new(move |x| {
                let sum = x + residual.clone();
                norm.forward(sum.clone()) + sum
            })
        }
        (Op::Softmax, Peer::BurnFused) => Box::new(|x| burn_fused::softmax(x, 2)),
        (Op::Softmax, Peer::Burn) => Box::new(|x| activation::softmax(x, 2)),
        (Op::LogSoftmax, Peer::BurnFused) => Box::new(|x| burn_fused::log_softmax(x, 2)),
        (Op::LogSoftmax, Peer::Burn) => Box::new(|x| activation::log_softmax(x, 2)),
        (Op::Attention, Peer::BurnFused) => {
            let options = op::attention(residual.dims());
            Box::new(move |x| burn_fused::attention_softmax(x, None, None, options))
        }
        (Op::Attention, Peer::Burn) => {
            let shape @ [_, queries, keys] = residual.dims();
            let options = op::attention(shape);
            let behind = (keys - queries) as i64;
            let hidden = Tensor::<2, Bool>::tril_mask([queries, keys], behind, &residual.device());
            let hidden = hidden.unsqueeze::<3>().expand(shape);
            Box::new(move |x| {
                let scores = x.mul_scalar(options.scale);
                activation::softmax(scores.mask_fill(hidden.clone(), f32::NEG_INFINITY), 2)
            })
        }
        (Op::CrossEntropy, Peer::BurnFused) => {
            let loss = loss::CrossEntropyLossConfig::new().init(&gamma.device());
            let targets = targets(&residual);
            Box::new(move |x| loss.forward(x.squeeze_dim(0), targets.clone()).unsqueeze())
        }
        (Op::CrossEntropy, Peer::Burn) => {
            let loss = nn::loss::CrossEntropyLossConfig::new().init(&gamma.device());
            let targets = targets(&residual);
            Box::new(move |x| loss.forward(x.squeeze_dim(0), targets.clone()).unsqueeze())
        }
        (Op::SoftmaxDim1, Peer::BurnFused) => Box::new(|x| burn_fused::softmax(x, 1)),
        (Op::SoftmaxDim1, Peer::Burn) => Box::new(|x| activation::softmax(x, 1)),
    }
}

/// A class for each row of logits of the shape of `like`.
fn targets(like: &Tensor<3>) -> Tensor<1, Int> {
    let [_, rows, classes] = like.dims();
    let uniform = Distribution::Uniform(0.0, classes as f64);
    Tensor::random([rows], uniform, &like.device())
}

fn burns_rms_norm(gamma: Tensor<1>) -> nn::RmsNorm {
    nn::RmsNorm { gamma: Param::from_tensor(gamma), epsilon: 1e-5 }
}

fn burns_layer_norm(gamma: Tensor<1>, beta: Tensor<1>) -> nn::LayerNorm {
    let mut norm = nn::LayerNormConfig::new(gamma.dims()[0]).init(&gamma.device());
    norm.gamma = Param::from_tensor(gamma);
    norm.beta = Some(Param::from_tensor(beta));
    norm
}
