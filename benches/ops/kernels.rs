//! The kernels as the backend launches them, outputs and partials allocated, without autodiff.

use crate::{
    machine::{Cube, Machine},
    op::Op,
};
use burn::tensor::FloatDType;
use burn_cubecl::CubeBackend;
use burn_fused::ops::{Norm, NormOps, NormWanted, OptionalTensor, Softmax, SoftmaxOps};

/// Microseconds of a forward and of a backward pass.
pub fn time(machine: &Machine, op: Op, dtype: FloatDType, shape: [usize; 3]) -> [f64; 2] {
    match op {
        Op::RmsNorm => norm(machine, Norm::Rms, dtype, shape),
        Op::LayerNorm => norm(machine, Norm::Layer, dtype, shape),
        Op::Softmax => softmax(machine, Softmax::Plain, 2, dtype, shape),
        Op::LogSoftmax => softmax(machine, Softmax::Log, 2, dtype, shape),
        Op::SoftmaxDim1 => softmax(machine, Softmax::Plain, 1, dtype, shape),
    }
}

/// All gradients are wanted.
fn norm(machine: &Machine, norm: Norm, dtype: FloatDType, shape: [usize; 3]) -> [f64; 2] {
    let parameter = || OptionalTensor::Some(machine.random(dtype, &shape[2..]));
    let (gamma, beta) = match norm {
        Norm::Rms => (parameter(), OptionalTensor::None),
        Norm::Layer => (parameter(), parameter()),
    };
    let wanted =
        NormWanted { x: true, gamma: true, beta: (norm == Norm::Layer).then_some(dtype.into()) };
    let run = |x| CubeBackend::norm_forward(x, gamma.clone(), beta.clone(), norm, 1, 1e-5);
    let sets = inputs(machine, dtype, shape, |x| run(x).statistics);
    let forward = machine.timer.device(|i| drop(run(sets[i % sets.len()].0.clone())));
    let backward = machine.timer.device(|i| {
        let (x, dy, statistics) = sets[i % sets.len()].clone();
        CubeBackend::norm_backward(x, gamma.clone(), statistics, dy, norm, 1, wanted);
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
