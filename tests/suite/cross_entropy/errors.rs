//! What is refused.

use crate::{device, panics};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use burn_fused::{CrossEntropyOptions, FusedError, cross_entropy, try_cross_entropy};

const OP: &str = "cross_entropy";

fn refuses(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    weights: Option<Tensor<1>>,
    smoothing: f64,
    expected: FusedError,
    message: &str,
) {
    let options = CrossEntropyOptions { ignore_index: None, label_smoothing: smoothing };
    let call = || (logits.clone(), targets.clone(), weights.clone(), options);
    let (l, t, w, o) = call();
    let found = try_cross_entropy(l, t, w, o).expect_err("it must be refused");
    // NaN is not equal to itself, its debug form is.
    assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    let message = format!("{OP}: {message}");
    assert_eq!(found.to_string(), message);
    let (l, t, w, o) = call();
    assert_eq!(panics::message(|| cross_entropy(l, t, w, o)), Some(message));
}

fn logits(device: &Device) -> Tensor<2> {
    Tensor::zeros([3, 4], device)
}

fn targets(rows: usize, device: &Device) -> Tensor<1, Int> {
    Tensor::zeros([rows], device)
}

#[test]
fn shapes() {
    let Some(device) = device::open() else { return };
    let shape = |argument, expected: usize, found: usize| FusedError::Shape {
        op: OP,
        argument,
        expected: vec![expected],
        found: vec![found],
    };
    let message = "`targets` must have the shape [3], found [4]";
    refuses(logits(&device), targets(4, &device), None, 0.0, shape("targets", 3, 4), message);
    let weights = Some(Tensor::ones([3], &device));
    let message = "`weights` must have the shape [4], found [3]";
    refuses(logits(&device), targets(3, &device), weights, 0.0, shape("weights", 4, 3), message);
    let empty = Tensor::zeros([3, 0], &device);
    let error = FusedError::EmptyRows { op: OP, argument: "logits", found: vec![3, 0] };
    let message = "`logits` must have at least one element in a row, found the shape [3, 0]";
    refuses(empty, targets(3, &device), None, 0.0, error, message);
}

/// Types of targets that the device has not.
#[test]
fn types_of_targets() {
    let Some(device) = device::open() else { return };
    let dtypes = [DType::I64, DType::I16, DType::I8, DType::U64, DType::U16, DType::U8];
    for found in dtypes {
        if device.supports_dtype(found) {
            println!("skipped: {} has {found:?}", device::name());
            continue;
        }
        let data = TensorData::new(vec![0i32; 3], [3]);
        let targets = Tensor::<1, Int>::from_data(data, (&device, found));
        let name = format!("{:?}", targets.device());
        let message = format!(
            "`targets` is {found:?}, in which {name} does not compute this; cast it to a type that it has, as f32 \
             or i32"
        );
        let expected = FusedError::Unsupported { op: OP, argument: "targets", device: name, found };
        refuses(logits(&device), targets, None, 0.0, expected, &message);
    }
}

#[test]
fn smoothing() {
    let Some(device) = device::open() else { return };
    for (found, shown) in [(-0.1, "-0.1"), (1.5, "1.5"), (f64::NAN, "NaN")] {
        let error = FusedError::Smoothing { op: OP, found };
        let message = format!("`label_smoothing` must be from 0 to 1, found {shown}");
        refuses(logits(&device), targets(3, &device), None, found, error, &message);
    }
}

#[test]
fn another_device() {
    let (Some(device), Some(other)) = (device::open(), device::another()) else { return };
    let other = other.device;
    let error = |argument| FusedError::Device {
        op: OP,
        argument,
        expected: format!("{device:?}"),
        found: format!("{other:?}"),
    };
    let message = |argument| {
        format!("`{argument}` must be on the input's device {device:?}, found {other:?}")
    };
    let far = targets(3, &other);
    refuses(logits(&device), far, None, 0.0, error("targets"), &message("targets"));
    let (near, far) = (targets(3, &device), Some(Tensor::ones([4], &other)));
    refuses(logits(&device), near, far, 0.0, error("weights"), &message("weights"));
}
