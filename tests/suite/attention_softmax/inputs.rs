//! Inputs as they lie, and buffers that are written over.

use super::{Inputs, PLAIN};
use crate::{
    buffer::{Note, noted},
    compare::{Report, same_bits},
    device,
    random::Random,
    values::Values,
};
use burn::{
    backend::Dispatch,
    tensor::{DType, Tensor},
};
use burn_fused::{
    AttentionSoftmaxOptions, attention_softmax, attention_softmax_execution,
    ops::{AttentionSoftmaxOps, AttentionSoftmaxWanted, OptionalBoolTensor, OptionalTensor},
    rms_norm_execution,
};

const OPTIONS: AttentionSoftmaxOptions = AttentionSoftmaxOptions { scale: 0.5, causal: Some(30) };

/// Parts, transposes and expansions of other tensors.
#[test]
fn views() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("views"), Report::default());
    for columns in [33, 64] {
        let shape = [2, 6, columns];
        let inputs = Inputs::random(&shape, DType::F32, OPTIONS, &mut random);
        let inputs = inputs.with_mask(&shape, &mut random);
        let inputs = inputs.with_bias(&shape, DType::F32, &mut random);
        let dense = inputs.run::<3>(&device);
        report.add(&inputs, inputs.check(&dense));
        let x = inputs.x.tensor::<3>(&device);
        let mask = inputs.mask.as_ref().unwrap().tensor::<3>(&device);
        let bias = inputs.bias.as_ref().unwrap().tensor::<3>(&device);
        let beside = |by: usize| {
            let other = Tensor::<3>::full([2, 6, by], f32::NAN, &device);
            let others = Tensor::<3>::ones([2, 6, by], &device).bool();
            let x = Tensor::cat(vec![other.clone(), x.clone(), other.clone()], 2);
            let mask = Tensor::cat(vec![others, mask.clone()], 2);
            let bias = Tensor::cat(vec![other, bias.clone()], 2);
            let part = |from: Tensor<3>| from.narrow(2, by, columns);
            (part(x), mask.narrow(2, by, columns), part(bias))
        };
        let turned = |x: Tensor<3>| x.swap_dims(0, 2).mul_scalar(1.0).swap_dims(0, 2);
        let turned_mask = mask.clone().swap_dims(1, 2).bool_not().bool_not().swap_dims(1, 2);
        for (case, (x, mask, bias)) in [
            ("columns of another", beside(64)),
            ("columns of another, not aligned", beside(3)),
            ("transposed", (turned(x.clone()), turned_mask, turned(bias.clone()))),
        ] {
            let found = inputs.run_on(x, Some(mask), Some(bias), &device);
            report.add(format!("{inputs} {case}"), inputs.check(&found));
            if device::keeps_bits() {
                report.add(format!("{inputs} {case}"), found.same_bits(&dense));
            }
        }
        // What is broadcast by the caller is what is broadcast on the way.
        let inputs = Inputs::random(&shape, DType::F32, OPTIONS, &mut random);
        let inputs = inputs.with_mask(&[1, 6, 1], &mut random);
        let own = inputs.run::<3>(&device);
        let mask = inputs.mask.as_ref().unwrap().tensor::<3>(&device).expand(shape);
        let found = inputs.run_on(inputs.x.tensor(&device), Some(mask), None, &device);
        report.add(format!("{inputs} expanded"), found.same_bits(&own));
    }
    report.finish();
}

/// A row is its own, whatever beside it; and so it is from run to run.
#[test]
fn rows_alone() {
    let Some(device) = device::open() else { return };
    if !device::keeps_bits() {
        return println!("skipped: {} promises no bits", device::name());
    }
    let mut random = Random::of("rows_alone");
    let shape = [5, 4, 100];
    let inputs = Inputs::random(&shape, DType::F32, OPTIONS, &mut random);
    let inputs = inputs.with_bias(&[1, 4, 100], DType::F32, &mut random);
    let all = inputs.run::<3>(&device);
    let mut report = Report::default();
    report.add(&inputs, inputs.run::<3>(&device).same_bits(&all));
    report.finish();
    for batch in 0..5 {
        let rows = batch * 400..(batch + 1) * 400;
        let part = |values: &Values| {
            Values::new(&[1, 4, 100], DType::F32, values.data[rows.clone()].to_vec())
        };
        let alone = Inputs { x: part(&inputs.x), dy: part(&inputs.dy), ..inputs.clone() };
        let found = alone.run::<3>(&device);
        for (of_all, found) in [(&all.y, &found.y), (&all.dx.clone().unwrap(), &found.dx.unwrap())]
        {
            let of_all = part(&Values::returned(of_all));
            same_bits("rows", &of_all.data(), found).unwrap();
        }
    }
}

/// The output lies where the scores did that nothing else uses, and their gradient where that of the output did.
#[test]
fn buffers_are_written_over() {
    let Some(device) = device::open() else { return };
    if device::name() == "flex" {
        return println!("skipped: there are no kernels for flex");
    }
    let mut random = Random::of("buffers_are_written_over");
    let place = |note: Note| note.lock().unwrap().expect("a buffer was seen");
    for columns in [64, 257, 20_000] {
        let inputs = Inputs::random(&[5, columns], DType::F32, OPTIONS, &mut random);
        let expected = inputs.run::<2>(&device);
        let (x, of_x) = noted(inputs.x.tensor::<2>(&device));
        let (dy, of_dy) = noted(inputs.dy.tensor::<2>(&device));
        // Until it has arrived the upload holds the buffer as well.
        device.sync().unwrap();
        let (mask, bias) = (OptionalBoolTensor::None, OptionalTensor::None);
        let y = Dispatch::attention_softmax_forward(x.into_dispatch(), mask, bias, OPTIONS);
        let (y, of_y) = noted(Tensor::<2>::from_dispatch(y));
        let wanted = AttentionSoftmaxWanted { x: true, bias: None };
        let (y, dy) = (y.into_dispatch(), dy.into_dispatch());
        let gradients = Dispatch::attention_softmax_backward(y.clone(), dy, OPTIONS.scale, wanted);
        let dx = gradients.x.into_option().expect("it is asked for");
        let (dx, of_dx) = noted(Tensor::<2>::from_dispatch(dx));
        same_bits("y", &expected.y, &Tensor::<2>::from_dispatch(y).into_data()).unwrap();
        same_bits("dx", &expected.dx.unwrap(), &dx.into_data()).unwrap();
        assert_eq!(place(of_x), place(of_y), "y, {columns} columns");
        assert_eq!(place(of_dy), place(of_dx), "dx, {columns} columns");
    }
}

#[test]
fn held_scores_are_left_alone() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("held_scores_are_left_alone");
    let inputs = Inputs::random(&[5, 257], DType::F32, OPTIONS, &mut random);
    let x = inputs.x.tensor::<2>(&device);
    let y = attention_softmax(x.clone(), None, None, OPTIONS);
    same_bits("y", &inputs.run::<2>(&device).y, &y.into_data()).unwrap();
    same_bits("x", &inputs.x.data(), &x.into_data()).unwrap();
}

#[test]
fn nothing_at_all() {
    let Some(device) = device::open() else { return };
    for shape in [[0, 3, 4], [2, 0, 4], [2, 3, 0]] {
        let mut random = Random::of("nothing_at_all");
        let inputs = Inputs::random(&shape, DType::F32, PLAIN, &mut random);
        let inputs = inputs.with_bias(&[1, shape[1], 1], DType::F32, &mut random);
        let found = inputs.run::<3>(&device);
        assert_eq!(found.y.shape().to_vec(), shape);
        let dbias = Values::returned(&found.dbias.unwrap());
        assert_eq!(dbias.shape, [1, shape[1], 1]);
        assert!(dbias.data.iter().all(|v| *v == 0.0));
    }
}

#[test]
fn execution() {
    let Some(device) = device::open() else { return };
    let x = Tensor::<3>::zeros([2, 3, 4], &device);
    let execution = attention_softmax_execution(&x).unwrap();
    let expected = rms_norm_execution(&x, None::<&Tensor<1>>).unwrap();
    assert_eq!(execution.path, expected.path);
    assert_eq!(execution.accumulator, expected.accumulator);
}
