//! Gradient checkpointing recomputes what it did not keep, to the same bits.

use crate::{
    compare::{Report, same_bits},
    device,
    op::{Data, Op, dtypes},
    random::Random,
    values::Values,
};
use burn::tensor::{DType, Device, Tensor, TensorData};

/// The gradients of `op(x·s)·w` in x, s, w and the parameters. Multiplication needs both of its
/// factors again: the op's input and its output are recomputed.
fn gradients<O: Op>(op: O, data: &Data, factors: &[Values; 2], device: &Device) -> Vec<TensorData> {
    let leaf = |values: &Values| values.tensor::<2>(device).require_grad();
    let (x, [s, w]) = (leaf(&data.x), factors.each_ref().map(leaf));
    let parameters: Vec<_> = data
        .parameters
        .iter()
        .map(|p| p.as_ref().map(|p| p.tensor::<1>(device).require_grad()))
        .collect();
    let y = op.forward(x.clone() * s.clone(), parameters.clone());
    let gradients = (y * w.clone()).backward();
    let of_parameters = parameters.iter().flatten().map(|p| p.grad(&gradients));
    let of_parameters = of_parameters.map(|g| g.map(Tensor::into_data));
    [x, s, w]
        .map(|leaf| leaf.grad(&gradients).map(Tensor::into_data))
        .into_iter()
        .chain(of_parameters)
        .map(|gradient| gradient.expect("every leaf is tracked"))
        .collect()
}

pub fn same_bits_when_recomputed<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("same_bits_when_recomputed"), Report::default());
    let plain = device.autodiff();
    let checkpointed = plain.clone().gradient_checkpointing();
    for dtype in dtypes::<O>(&plain) {
        for parameters in [Some(dtype), Some(DType::F32), None] {
            let data = Data::random::<O>(&[37, 257], 1, dtype, parameters, &mut random);
            let factors = [(); 2].map(|()| Values::normal(&[37, 257], dtype, &mut random));
            let kept = gradients(op, &data, &factors, &plain);
            let again = gradients(op, &data, &factors, &checkpointed);
            let names = ["dx", "ds", "dw"].iter().chain(O::PARAMETERS);
            let pairs = names.zip(kept.iter().zip(&again));
            report.add(&data, pairs.map(|(name, (kept, again))| same_bits(name, kept, again)));
        }
    }
    report.finish();
}
