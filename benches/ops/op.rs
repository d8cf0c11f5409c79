use crate::gpu::Gpu;
use burn::tensor::FloatDType;
use burn_cubecl::CubeBackend;
use burn_fused::ops::{Norm, NormOps, NormWanted, OptionalTensor, Softmax, SoftmaxOps};
use clap::ValueEnum;

/// The ops that can be timed.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Op {
    RmsNorm,
    LayerNorm,
    Softmax,
    LogSoftmax,
}

impl Op {
    pub fn name(self) -> &'static str {
        match self {
            Self::RmsNorm => "rms_norm",
            Self::LayerNorm => "layer_norm",
            Self::Softmax => "softmax",
            Self::LogSoftmax => "log_softmax",
        }
    }

    /// Microseconds of a forward and of a backward pass.
    pub fn time(self, gpu: &Gpu, dtype: FloatDType, shape: [usize; 2]) -> [f64; 2] {
        match self {
            Self::RmsNorm => norm(gpu, Norm::Rms, dtype, shape),
            Self::LayerNorm => norm(gpu, Norm::Layer, dtype, shape),
            Self::Softmax => softmax(gpu, Softmax::Plain, dtype, shape),
            Self::LogSoftmax => softmax(gpu, Softmax::Log, dtype, shape),
        }
    }
}

/// All gradients are wanted.
fn norm(gpu: &Gpu, norm: Norm, dtype: FloatDType, shape: [usize; 2]) -> [f64; 2] {
    let parameter = || OptionalTensor::Some(gpu.random(dtype, &shape[1..]));
    let (gamma, beta) = match norm {
        Norm::Rms => (parameter(), OptionalTensor::None),
        Norm::Layer => (parameter(), parameter()),
    };
    let wanted =
        NormWanted { x: true, gamma: true, beta: (norm == Norm::Layer).then_some(dtype.into()) };
    let run = |x| CubeBackend::norm_forward(x, gamma.clone(), beta.clone(), norm, 1, 1e-5);
    let inputs = gpu.inputs(dtype, shape, |x| {
        let statistics = run(x.clone()).statistics;
        (x, gpu.random(dtype, &shape), statistics)
    });
    let forward = gpu.time(20, |i| drop(run(inputs[i % inputs.len()].0.clone())));
    let backward = gpu.time(20, |i| {
        let (x, dy, statistics) = inputs[i % inputs.len()].clone();
        CubeBackend::norm_backward(x, gamma.clone(), statistics, dy, norm, 1, wanted);
    });
    [forward, backward]
}

fn softmax(gpu: &Gpu, form: Softmax, dtype: FloatDType, shape: [usize; 2]) -> [f64; 2] {
    let inputs = gpu.inputs(dtype, shape, |x| {
        let y = CubeBackend::softmax_forward(x.clone(), 1, form);
        (x, gpu.random(dtype, &shape), y)
    });
    let forward = gpu.time(20, |i| {
        CubeBackend::softmax_forward(inputs[i % inputs.len()].0.clone(), 1, form);
    });
    let backward = gpu.time(20, |i| {
        let (_, dy, y) = inputs[i % inputs.len()].clone();
        CubeBackend::softmax_backward(y, dy, 1, form);
    });
    [forward, backward]
}
