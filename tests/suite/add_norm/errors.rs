//! What is refused beside what the op itself refuses.

use super::{AddNorm, both};
use crate::{device, panics};
use burn::tensor::{DType, Device, Tensor};
use burn_fused::FusedError;

both!(another_shape another_type another_device what_the_op_refuses);

fn refuses<O: AddNorm>(op: O, residual: Tensor<2>, expected: FusedError, message: &str) {
    let Some(device) = device::open() else { return };
    let none = || O::PARAMETERS.iter().map(|_| None::<Tensor<1>>).collect();
    let x = Tensor::<2>::ones([2, 4], &device);
    let found = op.try_add(x.clone(), residual.clone(), none()).expect_err("it must be refused");
    assert_eq!(found, expected);
    let message = format!("{}: {message}", O::ADD);
    assert_eq!(found.to_string(), message);
    assert_eq!(panics::message(|| op.add(x, residual, none())), Some(message));
}

/// Even one that could be broadcast.
fn another_shape<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    for found in [[2, 3], [1, 4]] {
        let (expected, shape) = (vec![2, 4], found.to_vec());
        let message = format!("`residual` must have the shape [2, 4], found {found:?}");
        let error = FusedError::Shape { op: O::ADD, argument: "residual", expected, found: shape };
        refuses(op, Tensor::ones(found, &device), error, &message);
    }
}

fn another_type<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    let found = DType::F16;
    let error = FusedError::Mixed { op: O::ADD, argument: "residual", expected: DType::F32, found };
    let message = "`residual` must be F32, as the input is, found F16";
    refuses(op, Tensor::<2>::ones([2, 4], &device).cast(found), error, message);
}

fn another_device<O: AddNorm>(op: O) {
    let (Some(device), Some(other)) = (device::open(), device::another()) else { return };
    let other = other.device;
    let error = FusedError::Device {
        op: O::ADD,
        argument: "residual",
        expected: format!("{device:?}"),
        found: format!("{other:?}"),
    };
    let message = format!("`residual` must be on the input's device {device:?}, found {other:?}");
    refuses(op, Tensor::ones([2, 4], &other), error, &message);
}

/// Under the name of the function that was called.
fn what_the_op_refuses<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    let tensor = |shape: [usize; 2], device: &Device| Tensor::<2>::ones(shape, device);
    let mut parameters: Vec<_> = O::PARAMETERS.iter().map(|_| None).collect();
    parameters[0] = Some(Tensor::<1>::ones([3], &device));
    let (x, residual) = (tensor([2, 4], &device), tensor([2, 4], &device));
    let found = op.try_add(x, residual, parameters).err().map(|error| error.to_string());
    let message = format!("{}: `gamma` must have the shape [4], found [3]", O::ADD);
    assert_eq!(found, Some(message));
}
