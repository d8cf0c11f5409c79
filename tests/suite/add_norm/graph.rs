//! Two outputs on the graph: each used alone or with the other, any input tracked, recomputed or not.

use super::{AddNorm, EVERY_USE, Found, Sums, Used, both};
use crate::{
    compare::{Report, same_bits},
    deliver::deliver,
    device,
    op::dtypes,
    random::Random,
    values::Values,
};
use burn::tensor::{DType, Device, Tensor};

both!(
    any_leaf_tracked only_parameters_tracked same_bits_when_recomputed one_tensor_twice gamma_behind_an_op_of_an_unused_norm
    outputs_used_often in_a_chain
);

fn any_leaf_tracked<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("any_leaf_tracked"), Report::default());
    for tracked in 0..1 << (2 + O::PARAMETERS.len()) {
        for used in EVERY_USE {
            let types = (DType::F32, Some(DType::F32));
            let sums = Sums::random::<O>(&[37, 257], 1, types.0, types.1, &mut random);
            let found = sums.run(op, used, tracked, &device);
            let case = format!("{}, tracked {tracked:b}, {used:?} used", O::ADD);
            report.add(case, sums.check(op, used, tracked, &found));
        }
    }
    report.finish();
}

/// The bits of a call that tracks nothing, also where Burn may fuse what computes x with what comes behind it.
fn only_parameters_tracked<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    if !device::keeps_bits() {
        return println!("skipped: {} promises no bits", device::name());
    }
    let (mut random, mut report) = (Random::of("only_parameters_tracked"), Report::default());
    let sums = Sums::random::<O>(&[37, 257], 1, DType::F32, Some(DType::F32), &mut random);
    let factors = Values::normal(&[37, 257], DType::F32, &mut random);
    let device = device.autodiff();
    let run = |tracked: bool| {
        let x = sums.data.x.tensor::<2>(&device) * factors.tensor::<2>(&device);
        let parameters = sums.data.parameters::<1>(&device).into_iter();
        let parameters = parameters.map(|p| p.map(|p| p.set_require_grad(tracked))).collect();
        let (y, sum) = op.add(x, sums.residual.tensor(&device), parameters);
        [y, sum].map(Tensor::into_data)
    };
    let (tracked, plain) = (run(true), run(false));
    let verdicts = [("y", 0), ("sum", 1)].map(|(name, i)| same_bits(name, &plain[i], &tracked[i]));
    report.add(O::ADD, verdicts);
    report.finish();
}

/// The outputs are tracked where something that they depend on is.
#[test]
fn outputs_are_tracked_where_their_inputs_are() {
    let Some(device) = device::open() else { return };
    let device = device.autodiff();
    let tensor = |tracked| Tensor::<2>::ones([2, 8], &device).set_require_grad(tracked);
    for tracked in 0..8 {
        let [x, residual, with_gamma] = [0, 1, 2].map(|i| tracked & (1 << i) != 0);
        let gamma = Tensor::<1>::ones([8], &device).set_require_grad(with_gamma);
        let (y, sum) = burn_fused::add_rms_norm(tensor(x), tensor(residual), Some(gamma), 1e-5);
        let case = format!("tracked {tracked:b}");
        assert_eq!(sum.is_tracked(), x || residual, "the sum, {case}");
        assert_eq!(y.is_tracked(), tracked != 0, "y, {case}");
    }
}

/// Multiplications need their factors again: what goes in, and both outputs.
fn products<O: AddNorm>(op: O, sums: &Sums, factors: &[Values; 4], device: &Device) -> Found {
    let leaf = |values: &Values| values.tensor::<2>(device).require_grad();
    let (x, residual) = (leaf(&sums.data.x), leaf(&sums.residual));
    let [s, t, u, v] = factors.each_ref().map(leaf);
    let parameters = sums.data.parameters::<1>(device).into_iter();
    let parameters: Vec<_> = parameters.map(|p| p.map(Tensor::require_grad)).collect();
    let outputs = op.add(x.clone() * s.clone(), residual.clone() * t.clone(), parameters.clone());
    let (y, sum) = outputs.clone();
    let gradients = (y * u.clone() + sum * v.clone()).backward();
    let leaves = [x, residual, s, t, u, v];
    let mut found: Vec<_> =
        leaves.iter().map(|leaf| leaf.grad(&gradients).map(Tensor::into_data)).collect();
    let of_parameters = parameters.iter().flatten().map(|leaf| leaf.grad(&gradients));
    found.extend(of_parameters.map(|g| g.map(Tensor::into_data)));
    assert!(found.iter().all(Option::is_some), "every leaf is tracked");
    let [y, sum] = [outputs.0, outputs.1].map(Tensor::into_data);
    Found { y, sum, gradients: found }
}

fn same_bits_when_recomputed<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("same_bits_when_recomputed"), Report::default());
    let plain = device.autodiff();
    let checkpointed = plain.clone().gradient_checkpointing();
    for dtype in dtypes::<O>(&plain) {
        for parameters in [Some(dtype), None] {
            let sums = Sums::random::<O>(&[37, 257], 1, dtype, parameters, &mut random);
            let factors = [(); 4].map(|()| Values::normal(&[37, 257], dtype, &mut random));
            let kept = products(op, &sums, &factors, &plain);
            let again = products(op, &sums, &factors, &checkpointed);
            report.add(format!("{} {}", O::ADD, sums.data), again.same_bits(&kept));
        }
    }
    report.finish();
}

/// `x + x`: its gradient is that of both.
fn one_tensor_twice<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("one_tensor_twice"), Report::default());
    let sums = Sums::random::<O>(&[37, 257], 1, DType::F32, Some(DType::F32), &mut random);
    let twice = Sums { residual: sums.data.x.clone(), ..sums };
    let apart = twice.run(op, Used::Both, usize::MAX, &device);
    let x = twice.data.x.tensor::<2>(&device).autodiff().require_grad();
    let parameters = twice.data.parameters::<1>(&device);
    let (y, sum) = op.add(x.clone(), x.clone(), parameters);
    let [dy, dsum] = [&twice.data.dy, &twice.dsum].map(|values| values.tensor::<2>(&device));
    let gradients = (deliver(y, dy) + deliver(sum, dsum)).backward();
    let dx = x.grad(&gradients).unwrap().into_data();
    let half = apart.gradients[0].clone().unwrap();
    let double = Tensor::<2>::from_data(half, &device).mul_scalar(2.0).into_data();
    report.add(O::ADD, [same_bits("dx", &double, &dx)]);
    report.finish();
}

/// Gamma is not a leaf, and the norm is not used: the steps before gamma find a gradient of zero.
fn gamma_behind_an_op_of_an_unused_norm<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("gamma_behind_an_op");
    let sums = Sums::random::<O>(&[5, 33], 1, DType::F32, Some(DType::F32), &mut random);
    let device = device.autodiff();
    let leaves = sums.data.parameters::<1>(&device).into_iter();
    let leaves: Vec<_> = leaves.map(|p| p.unwrap().require_grad()).collect();
    let parameters = leaves.iter().map(|leaf| Some(leaf.clone() * 2.0)).collect();
    let x = sums.data.x.tensor::<2>(&device).require_grad();
    let (y, sum) = op.add(x.clone(), sums.residual.tensor(&device), parameters);
    drop(y);
    let gradients = deliver(sum, sums.dsum.tensor(&device)).backward();
    for leaf in &leaves {
        let found = leaf.grad(&gradients).expect("it is tracked").into_data();
        assert_eq!(found.try_to_vec::<f32>().unwrap(), [0.0; 33], "{}", O::ADD);
    }
    let dx = x.grad(&gradients).expect("it is tracked").into_data();
    same_bits("dx", &sums.dsum.data(), &dx).unwrap();
}

/// Several ops use each output: their gradients add up before they arrive. Some are as deep as the norm.
fn outputs_used_often<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("outputs_used_often"), Report::default());
    let sums = Sums::random::<O>(&[37, 257], 1, DType::F64, Some(DType::F64), &mut random);
    if !device.supports_dtype(DType::F64) {
        return println!("skipped: {} does not compute in F64", device::name());
    }
    let [y_parts, sum_parts] =
        [(); 2].map(|()| [(); 3].map(|()| Values::normal(&[37, 257], DType::F64, &mut random)));
    let total = |parts: &[Values; 3]| {
        Values::of(&[37, 257], DType::F64, |i| parts.iter().map(|part| part.data[i]).sum())
    };
    let mut whole = sums.clone();
    (whole.data.dy, whole.dsum) = (total(&y_parts), total(&sum_parts));
    let found = sums.run_through(op, &y_parts, &sum_parts, &device);
    report.add(O::ADD, whole.check(op, Used::Both, usize::MAX, &found));
    report.finish();
}

impl Sums {
    /// Runs with a gradient of each output in several parts.
    fn run_through<O: AddNorm>(
        &self,
        op: O,
        y_parts: &[Values; 3],
        sum_parts: &[Values; 3],
        device: &Device,
    ) -> Found {
        let device = device.clone().autodiff();
        let leaf = |values: &Values| values.tensor::<2>(&device).require_grad();
        let (x, residual) = (leaf(&self.data.x), leaf(&self.residual));
        let parameters = self.data.parameters::<1>(&device).into_iter();
        let parameters: Vec<_> = parameters.map(|p| p.map(Tensor::require_grad)).collect();
        let outputs = op.add(x.clone(), residual.clone(), parameters.clone());
        let used = |output: &Tensor<2>, parts: &[Values; 3]| {
            let [near, far, last] = parts.each_ref().map(|part| part.tensor::<2>(&device));
            let through = output.clone().neg().neg();
            deliver(output.clone(), near) + deliver(through, far) + deliver(output.clone(), last)
        };
        let loss = used(&outputs.1, sum_parts) + used(&outputs.0, y_parts);
        let gradients = loss.backward();
        let mut found: Vec<_> =
            [&x, &residual].map(|leaf| leaf.grad(&gradients).map(Tensor::into_data)).into();
        let of_parameters = parameters.iter().flatten().map(|leaf| leaf.grad(&gradients));
        found.extend(of_parameters.map(|g| g.map(Tensor::into_data)));
        let [y, sum] = [outputs.0, outputs.1].map(Tensor::into_data);
        Found { y, sum, gradients: found }
    }
}

/// Blocks on a residual stream, each by its output and the sum; plain, recomputed, and by Burn's `+`. Weights are
/// powers of two, as Burn may fuse a multiplication with the addition behind it, which then rounds once.
fn in_a_chain<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("in_a_chain"), Report::default());
    let data = Sums::random::<O>(&[19, 129], 1, DType::F32, Some(DType::F32), &mut random);
    let power = |random: &mut Random| 2f64.powi(random.below(5) as i32 - 2);
    let weights = [(); 3].map(|()| Values::of(&[19, 129], DType::F32, |_| power(&mut random)));
    let run = |device: Device, fused: bool| {
        let x = data.data.x.tensor::<2>(&device).require_grad();
        let gamma = || -> Vec<_> { data.data.parameters::<1>(&device).into_iter().collect() };
        let mut stream = data.residual.tensor::<2>(&device).require_grad();
        let mut branch = x.clone();
        for weight in &weights {
            let (y, sum) = if fused {
                op.add(branch, stream, gamma())
            } else {
                let sum = branch + stream;
                (op.forward(sum.clone(), gamma()), sum)
            };
            branch = y * weight.tensor::<2>(&device);
            stream = sum;
        }
        let last = branch + stream;
        let gradients = deliver(last.clone(), data.data.dy.tensor(&device)).backward();
        (last.into_data(), x.grad(&gradients).unwrap().into_data())
    };
    let plain = device.autodiff();
    let (y, dx) = run(plain.clone(), true);
    for (case, device, fused) in [
        ("recomputed", plain.clone().gradient_checkpointing(), true),
        ("apart", plain.clone(), false),
    ] {
        if fused || device::keeps_order() {
            let (other_y, other_dx) = run(device, fused);
            let verdicts = [same_bits("y", &y, &other_y), same_bits("dx", &dx, &other_dx)];
            report.add(format!("{} {case}", O::ADD), verdicts);
        }
    }
    report.finish();
}
