//! The kernels as the backend launches them, outputs and partials allocated, without autodiff.

use crate::{
    machine::{Cube, Machine},
    op::{self, Op},
};
use burn::tensor::FloatDType;
use burn_cubecl::CubeBackend;
use burn_fused::{
    CrossEntropyOptions,
    ops::{
        AttentionSoftmaxOps, AttentionSoftmaxWanted, CrossEntropyOps, Norm, NormOps, NormSpec,
        NormUpstream, NormWanted, OptionalBoolTensor, OptionalTensor, Softmax, SoftmaxOps,
    },
};

/// Microseconds of a forward and of a backward pass.
pub fn time(machine: &Machine, op: Op, dtype: FloatDType, shape: [usize; 3]) -> [f64; 2] {
    match op {
        Op::RmsNorm => norm(machine, Norm::Rms, dtype, shape),
        Op::LayerNorm => norm(machine, Norm::Layer, dtype, shape),
        Op::AddRmsNorm => add_norm(machine, Norm::Rms, dtype, shape),
        Op::AddLayerNorm => add_norm(machine, Norm::Layer, dtype, shape),
        Op::Softmax => softmax(machine, Softmax::Plain, 2, dtype, shape),
        Op::LogSoftmax => softmax(machine, Softmax::Log, 2, dtype, shape),
        Op::Attention => attention(machine, dtype, shape),
        Op::CrossEntropy => cross_entropy(machine, dtype, shape),
        Op::SoftmaxDim1 => softmax(machine, Softmax::Plain, 1, dtype, shape),
    }
}

/// A norm's gamma and beta, and that all gradients are wanted.
fn parameters(
    machine: &Machine,
    norm: Norm,
    dtype: FloatDType,
    columns: usize,
) -> ([OptionalTensor<CubeBackend>; 2], NormWanted) {
    let parameter = || OptionalTensor::Some(machine.random(dtype, &[columns]));
    let beta = (norm == Norm::Layer).then(parameter).unwrap_or(OptionalTensor::None);
    let beta_type = (norm == Norm::Layer).then_some(dtype.into());
    ([parameter(), beta], NormWanted { x: true, gamma: true, beta: beta_type })
}

fn norm(machine: &Machine, norm: Norm, dtype: FloatDType, shape: [usize; 3]) -> [f64; 2] {
    let ([gamma, beta], wanted) = parameters(machine, norm, dtype, shape[2]);
    let spec = NormSpec::new(norm, 1, 1e-5, dtype);
    let run = |x| CubeBackend::norm_forward(x, gamma.clone(), beta.clone(), spec);
    let sets = inputs(machine, dtype, shape, |x| run(x).statistics);
    let forward = machine.timer.device(|i| drop(run(sets[i % sets.len()].0.clone())));
    let backward = machine.timer.device(|i| {
        let (x, dy, statistics) = sets[i % sets.len()].clone();
        let upstream = NormUpstream { y: dy, x: OptionalTensor::None };
        CubeBackend::norm_backward(x, gamma.clone(), statistics, upstream, spec, wanted);
    });
    [forward, backward]
}

/// Forward the residual is in the gradient's place; backward x is in that of the sum's gradient.
fn add_norm(machine: &Machine, norm: Norm, dtype: FloatDType, shape: [usize; 3]) -> [f64; 2] {
    let ([gamma, beta], wanted) = parameters(machine, norm, dtype, shape[2]);
    let spec = NormSpec::new(norm, 1, 1e-5, dtype);
    let run =
        |x, residual| CubeBackend::add_norm_forward(x, residual, gamma.clone(), beta.clone(), spec);
    let sets = inputs(machine, dtype, shape, |x| {
        let outputs = run(x.clone(), x);
        (outputs.sum, outputs.statistics)
    });
    let forward = machine.timer.device(|i| {
        let (x, residual, _) = sets[i % sets.len()].clone();
        drop(run(x, residual));
    });
    let backward = machine.timer.device(|i| {
        let (x, dy, (sum, statistics)) = sets[i % sets.len()].clone();
        let upstream = NormUpstream { y: dy, x: OptionalTensor::Some(x) };
        CubeBackend::norm_backward(sum, gamma.clone(), statistics, upstream, spec, wanted);
    });
    [forward, backward]
}

fn attention(machine: &Machine, dtype: FloatDType, shape: [usize; 3]) -> [f64; 2] {
    let options = op::attention(shape);
    let run = |x| {
        let (mask, bias) = (OptionalBoolTensor::None, OptionalTensor::None);
        CubeBackend::attention_softmax_forward(x, mask, bias, options)
    };
    let sets = inputs(machine, dtype, shape, run);
    let forward = machine.timer.device(|i| drop(run(sets[i % sets.len()].0.clone())));
    let backward = machine.timer.device(|i| {
        let (_, dy, y) = sets[i % sets.len()].clone();
        let wanted = AttentionSoftmaxWanted { x: true, bias: None };
        CubeBackend::attention_softmax_backward(y, dy, options.scale, wanted);
    });
    [forward, backward]
}

fn cross_entropy(machine: &Machine, dtype: FloatDType, shape: [usize; 3]) -> [f64; 2] {
    let [_, rows, classes] = shape;
    let (options, none) = (CrossEntropyOptions::default(), OptionalTensor::None);
    let targets = machine.integers(rows, classes);
    let grad = machine.random(FloatDType::F32, &[rows]);
    let run =
        |logits| CubeBackend::cross_entropy_forward(logits, targets.clone(), none.clone(), options);
    let set = |_| {
        let logits = machine.random(dtype, &[rows, classes]);
        (logits.clone(), run(logits).saved)
    };
    let sets: Vec<_> = (0..machine.sets(dtype, &shape)).map(set).collect();
    let forward = machine.timer.device(|i| drop(run(sets[i % sets.len()].0.clone())));
    let backward = machine.timer.device(|i| {
        let (logits, saved) = sets[i % sets.len()].clone();
        let (targets, grad) = (targets.clone(), grad.clone());
        CubeBackend::cross_entropy_backward(logits, targets, none.clone(), saved, grad, options);
    });
    [forward, backward]
}

fn softmax(
    machine: &Machine,
    form: Softmax,
    dim: usize,
    dtype: FloatDType,
    shape: [usize; 3],
) -> [f64; 2] {
    let run = |x| CubeBackend::softmax_forward(x, dim, form);
    let sets = inputs(machine, dtype, shape, run);
    let forward = machine.timer.device(|i| drop(run(sets[i % sets.len()].0.clone())));
    let backward = machine.timer.device(|i| {
        let (_, dy, y) = sets[i % sets.len()].clone();
        CubeBackend::softmax_backward(y, dy, dim, form);
    });
    [forward, backward]
}

/// Inputs, gradients and what the backward pass has of the forward one.
fn inputs<T>(
    machine: &Machine,
    dtype: FloatDType,
    shape: [usize; 3],
    kept: impl Fn(Cube) -> T,
) -> Vec<(Cube, Cube, T)> {
    let set = |_| {
        let [x, dy] = [(); 2].map(|()| machine.random(dtype, &shape));
        (x.clone(), dy, kept(x))
    };
    (0..machine.sets(dtype, &shape)).map(set).collect()
}
