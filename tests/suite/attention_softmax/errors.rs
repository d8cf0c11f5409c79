//! What is refused.

use super::PLAIN;
use crate::{device, panics};
use burn::tensor::{Bool, Device, Tensor};
use burn_fused::{AttentionSoftmaxOptions, FusedError, attention_softmax, try_attention_softmax};

const OP: &str = "attention_softmax";

fn refuses(
    x: Tensor<3>,
    mask: Option<Tensor<3, Bool>>,
    bias: Option<Tensor<3>>,
    options: AttentionSoftmaxOptions,
    expected: FusedError,
    message: &str,
) {
    let call = || (x.clone(), mask.clone(), bias.clone());
    let (x, m, b) = call();
    let found = try_attention_softmax(x, m, b, options).expect_err("it must be refused");
    // NaN is not equal to itself, its debug form is.
    assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    let message = format!("{OP}: {message}");
    assert_eq!(found.to_string(), message);
    let (x, m, b) = call();
    assert_eq!(panics::message(|| attention_softmax(x, m, b, options)), Some(message));
}

fn scores(device: &Device) -> Tensor<3> {
    Tensor::zeros([2, 3, 4], device)
}

#[test]
fn shapes() {
    let Some(device) = device::open() else { return };
    let error = |argument, found: [usize; 3]| FusedError::Broadcast {
        op: OP,
        argument,
        expected: vec![2, 3, 4],
        found: found.to_vec(),
    };
    let message = |argument, found: [usize; 3]| {
        format!("each dimension of `{argument}` must be that of [2, 3, 4] or 1, found {found:?}")
    };
    let found = [2, 1, 3];
    let mask = Tensor::<3>::zeros(found, &device).bool();
    let (expected, says) = (error("mask", found), message("mask", found));
    refuses(scores(&device), Some(mask), None, PLAIN, expected, &says);
    let found = [4, 3, 4];
    let bias = Tensor::zeros(found, &device);
    let (expected, says) = (error("bias", found), message("bias", found));
    refuses(scores(&device), None, Some(bias), PLAIN, expected, &says);
}

#[test]
fn scale() {
    let Some(device) = device::open() else { return };
    for (found, shown) in [
        (f64::NAN, "NaN"),
        (f64::INFINITY, "inf"),
        (2e40, "20000000000000000000000000000000000000000"),
    ] {
        let options = AttentionSoftmaxOptions { scale: found, ..PLAIN };
        let message = format!("`scale` must be finite, found {shown}");
        let expected = FusedError::Scale { op: OP, found };
        refuses(scores(&device), None, None, options, expected, &message);
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
    let (mask, bias) = (scores(&other).bool(), scores(&other));
    let x = || scores(&device);
    refuses(x(), Some(mask), None, PLAIN, error("mask"), &message("mask"));
    refuses(x(), None, Some(bias), PLAIN, error("bias"), &message("bias"));
}
