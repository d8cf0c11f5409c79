//! What is refused, with which error, and that the panic says the same.

use crate::{device, op::Checked, panics};
use burn::tensor::{Device, Tensor, quantization::QuantScheme};
use burn_fused::FusedError;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The call fails with `expected`, and its twin panics with that error's `message`, which here is
/// without the op's name.
#[track_caller]
pub fn refuses<O: Checked, const D: usize, const K: usize>(
    op: O,
    x: Tensor<D>,
    parameters: Vec<Option<Tensor<K>>>,
    expected: FusedError,
    message: &str,
) {
    let message = format!("{}: {message}", O::NAME);
    let found = op.attempt(x.clone(), parameters.clone()).expect_err("it must be refused");
    // NaN is not equal to itself, its debug form is.
    assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    assert_eq!(found.to_string(), message);
    if !matches!(expected, FusedError::Epsilon { .. }) {
        assert_eq!(op.execution(&x, &parameters), Err(expected));
    }
    let panic = panics::message(|| op.forward(x, parameters));
    assert_eq!(panic, Some(message));
}

/// Tests of a norm's errors. `$op` makes one of an epsilon.
macro_rules! norm_errors {
    ($op:expr) => {
        crate::errors::norm_errors! { $op => shape rank empty_rows epsilon quantised another_device }
    };
    ($op:expr => $($test:ident)+) => {
        $(#[test]
        fn $test() {
            crate::errors::$test($op);
        })+
    };
}
pub(crate) use norm_errors;

fn x(device: &Device) -> Tensor<3> {
    Tensor::ones([2, 3, 4], device)
}

/// No parameters at all.
fn none<O: Checked, const K: usize>() -> Vec<Option<Tensor<K>>> {
    O::PARAMETERS.iter().map(|_| None).collect()
}

/// Each parameter in turn given as `parameter`, the others left out.
fn each<O: Checked, const K: usize>(
    parameter: &Tensor<K>,
) -> impl Iterator<Item = (&'static str, Vec<Option<Tensor<K>>>)> {
    O::PARAMETERS.iter().enumerate().map(|(i, name)| {
        let mut parameters = none::<O, K>();
        parameters[i] = Some(parameter.clone());
        (*name, parameters)
    })
}

pub fn shape<O: Checked>(op: impl Fn(f64) -> O) {
    fn refused<O: Checked, const K: usize>(op: O, expected: &[usize], found: [usize; K]) {
        let Some(device) = device::open() else { return };
        for (argument, parameters) in each::<O, K>(&Tensor::ones(found, &device)) {
            let (expected, found) = (expected.to_vec(), found.to_vec());
            let message = format!("`{argument}` must have the shape {expected:?}, found {found:?}");
            let error = FusedError::Shape { op: O::NAME, argument, expected, found };
            refuses(op, x(&device), parameters, error, &message);
        }
    }
    refused(op(1e-5), &[4], [3]);
    // As many elements as a row, in another shape; and one that would broadcast.
    refused(op(1e-5), &[3, 4], [4, 3]);
    refused(op(1e-5), &[4], [1]);
}

pub fn rank<O: Checked>(op: impl Fn(f64) -> O) {
    let Some(device) = device::open() else { return };
    let error = |found| FusedError::Rank { op: O::NAME, argument: "gamma", max: 3, found };
    let message = "`gamma` must have a rank from 1 to 3, found 4";
    refuses(op(1e-5), x(&device), none::<O, 4>(), error(4), message);
    let mut parameters = none::<O, 4>();
    parameters[0] = Some(Tensor::ones([1, 2, 3, 4], &device));
    refuses(op(1e-5), x(&device), parameters, error(4), message);
    let message = "`gamma` must have a rank from 1 to 3, found 0";
    refuses(op(1e-5), x(&device), none::<O, 0>(), error(0), message);
}

pub fn empty_rows<O: Checked>(op: impl Fn(f64) -> O) {
    let Some(device) = device::open() else { return };
    let error = |found: &[usize]| FusedError::EmptyRows {
        op: O::NAME,
        argument: "x",
        found: found.to_vec(),
    };
    let x = Tensor::<2>::zeros([3, 0], &device);
    let message = "`x` must have at least one element in a row, found the shape [3, 0]";
    refuses(op(1e-5), x.clone(), none::<O, 1>(), error(&[3, 0]), message);
    for (_, parameters) in each::<O, 1>(&Tensor::zeros([0], &device)) {
        refuses(op(1e-5), x.clone(), parameters, error(&[3, 0]), message);
    }
    let x = Tensor::<3>::zeros([2, 0, 4], &device);
    let message = "`x` must have at least one element in a row, found the shape [2, 0, 4]";
    refuses(op(1e-5), x, none::<O, 2>(), error(&[2, 0, 4]), message);
}

pub fn epsilon<O: Checked>(op: impl Fn(f64) -> O) {
    let Some(device) = device::open() else { return };
    for epsilon in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -1e-300] {
        let error = FusedError::Epsilon { op: O::NAME, found: epsilon };
        let message = format!("`epsilon` must be finite and not negative, found {epsilon}");
        refuses(op(epsilon), x(&device), none::<O, 1>(), error, &message);
    }
    assert!(op(0.0).attempt(x(&device), none::<O, 1>()).is_ok());
}

/// A quantised tensor, or `None` after saying that the device makes none.
pub fn quantise(tensor: Tensor<1>) -> Option<Tensor<1>> {
    let quantise = || tensor.quantize_dynamic(&QuantScheme::default());
    let quantised = catch_unwind(AssertUnwindSafe(quantise)).ok();
    if quantised.is_none() {
        println!("skipped: {} does not quantise by the default scheme", device::name());
    }
    quantised
}

/// `argument` is refused for its type, which is that of `found`.
pub fn not_float<O: Checked>(argument: &'static str, found: &Tensor<1>) -> (FusedError, String) {
    let found = found.dtype();
    let message = format!("`{argument}` must be f16, bf16, flex32, f32 or f64, found {found:?}");
    (FusedError::DType { op: O::NAME, argument, found }, message)
}

pub fn quantised<O: Checked>(op: impl Fn(f64) -> O) {
    let Some(device) = device::open() else { return };
    let Some(quantised) = quantise(Tensor::ones([32], &device)) else { return };
    let (error, message) = not_float::<O>("x", &quantised);
    refuses(op(1e-5), quantised.clone(), none::<O, 1>(), error, &message);
    for (argument, parameters) in each::<O, 1>(&quantised) {
        let (error, message) = not_float::<O>(argument, &quantised);
        let x = Tensor::<2>::ones([2, 32], &device);
        refuses(op(1e-5), x, parameters, error, &message);
    }
}

pub fn another_device<O: Checked>(op: impl Fn(f64) -> O) {
    let Some(device) = device::open() else { return };
    let Some(device::Another { device: other, .. }) = device::another() else { return };
    for (argument, parameters) in each::<O, 1>(&Tensor::ones([4], &other)) {
        let (expected, found) = (format!("{device:?}"), format!("{other:?}"));
        let message =
            format!("`{argument}` must be on the input's device {expected}, found {found}");
        let error = FusedError::Device { op: O::NAME, argument, expected, found };
        refuses(op(1e-5), x(&device), parameters, error, &message);
    }
}
