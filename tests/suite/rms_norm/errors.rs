//! What is refused, with which error, and that the panic says the same.

use crate::{device, panics};
use burn::tensor::{Device, Tensor, quantization::QuantScheme};
use burn_fused::{FusedError, rms_norm, rms_norm_execution, try_rms_norm};
use std::panic::{AssertUnwindSafe, catch_unwind};

const OP: &str = "rms_norm";

/// The call fails with `expected`, and its twin panics with that error's `message`.
#[track_caller]
fn refuses<const D: usize, const K: usize>(
    x: Tensor<D>,
    gamma: Option<Tensor<K>>,
    epsilon: f64,
    expected: FusedError,
    message: &str,
) {
    let found = try_rms_norm(x.clone(), gamma.clone(), epsilon).expect_err("it must be refused");
    // NaN is not equal to itself, its debug form is.
    assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    assert_eq!(found.to_string(), message);
    if !matches!(expected, FusedError::Epsilon { .. }) {
        assert_eq!(rms_norm_execution(&x, gamma.as_ref()), Err(expected));
    }
    let panic = panics::message(|| rms_norm(x, gamma, epsilon));
    assert_eq!(panic.as_deref(), Some(message));
}

fn x(device: &Device) -> Tensor<3> {
    Tensor::ones([2, 3, 4], device)
}

#[test]
fn shape() {
    let Some(device) = device::open() else { return };
    let error = |expected: &[usize], found: &[usize]| FusedError::Shape {
        op: OP,
        argument: "gamma",
        expected: expected.to_vec(),
        found: found.to_vec(),
    };
    let gamma = Some(Tensor::<1>::ones([3], &device));
    let message = "rms_norm: `gamma` must have the shape [4], found [3]";
    refuses(x(&device), gamma, 1e-5, error(&[4], &[3]), message);
    // As many elements as a row, in another shape; and one that would broadcast.
    let gamma = Some(Tensor::<2>::ones([4, 3], &device));
    let message = "rms_norm: `gamma` must have the shape [3, 4], found [4, 3]";
    refuses(x(&device), gamma, 1e-5, error(&[3, 4], &[4, 3]), message);
    let gamma = Some(Tensor::<1>::ones([1], &device));
    let message = "rms_norm: `gamma` must have the shape [4], found [1]";
    refuses(x(&device), gamma, 1e-5, error(&[4], &[1]), message);
}

#[test]
fn rank() {
    let Some(device) = device::open() else { return };
    let error = |found| FusedError::Rank { op: OP, argument: "gamma", max: 3, found };
    let message = "rms_norm: `gamma` must have a rank from 1 to 3, found 4";
    refuses(x(&device), None::<Tensor<4>>, 1e-5, error(4), message);
    refuses(x(&device), Some(Tensor::<4>::ones([1, 2, 3, 4], &device)), 1e-5, error(4), message);
    let message = "rms_norm: `gamma` must have a rank from 1 to 3, found 0";
    refuses(x(&device), None::<Tensor<0>>, 1e-5, error(0), message);
}

#[test]
fn empty_rows() {
    let Some(device) = device::open() else { return };
    let error =
        |found: &[usize]| FusedError::EmptyRows { op: OP, argument: "x", found: found.to_vec() };
    let x = Tensor::<2>::zeros([3, 0], &device);
    let message = "rms_norm: `x` must have at least one element in a row, found the shape [3, 0]";
    refuses(x.clone(), None::<Tensor<1>>, 1e-5, error(&[3, 0]), message);
    refuses(x, Some(Tensor::<1>::zeros([0], &device)), 1e-5, error(&[3, 0]), message);
    let x = Tensor::<3>::zeros([2, 0, 4], &device);
    let message =
        "rms_norm: `x` must have at least one element in a row, found the shape [2, 0, 4]";
    refuses(x, None::<Tensor<2>>, 1e-5, error(&[2, 0, 4]), message);
}

#[test]
fn epsilon() {
    let Some(device) = device::open() else { return };
    for epsilon in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -1e-300] {
        let error = FusedError::Epsilon { op: OP, found: epsilon };
        let message =
            format!("rms_norm: `epsilon` must be finite and not negative, found {epsilon}");
        refuses(x(&device), None::<Tensor<1>>, epsilon, error, &message);
    }
    assert!(try_rms_norm(x(&device), None::<Tensor<1>>, 0.0).is_ok());
}

#[test]
fn quantised() {
    let Some(device) = device::open() else { return };
    let quantise = |tensor: Tensor<1>| {
        catch_unwind(AssertUnwindSafe(|| tensor.quantize_dynamic(&QuantScheme::default()))).ok()
    };
    let Some(quantised) = quantise(Tensor::<1>::ones([32], &device)) else {
        println!("skipped: {} does not quantise by the default scheme", device::name());
        return;
    };
    let found = quantised.dtype();
    let error = |argument| FusedError::DType { op: OP, argument, found };
    let message = |argument| {
        format!("rms_norm: `{argument}` must be f16, bf16, flex32, f32 or f64, found {found:?}")
    };
    refuses(quantised.clone(), None::<Tensor<1>>, 1e-5, error("x"), &message("x"));
    let x = Tensor::<2>::ones([2, 32], &device);
    refuses(x, Some(quantised), 1e-5, error("gamma"), &message("gamma"));
}

#[test]
fn another_device() {
    let Some(device) = device::open() else { return };
    let other = if device::name() == "flex" { "cpu" } else { "flex" };
    let other = match device::open_named(other) {
        Ok(other) => other,
        Err(reason) => {
            println!("skipped: {reason}");
            return;
        }
    };
    let (expected, found) = (format!("{device:?}"), format!("{other:?}"));
    let message =
        format!("rms_norm: `gamma` must be on the input's device {expected}, found {found}");
    let error = FusedError::Device { op: OP, argument: "gamma", expected, found };
    let gamma = Some(Tensor::<1>::ones([4], &other));
    refuses(x(&device), gamma, 1e-5, error, &message);
}
