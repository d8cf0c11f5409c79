//! Cross-entropy of logits: the public function and the backend extension.

use super::{Check, Execution, Needs, OptionalTensor, composed};
use crate::FusedError;
use burn::{
    backend::{
        Backend, Dispatch, ExtensionType, backend_extension,
        tensor::{FloatTensor, IntTensor},
    },
    tensor::{Int, Tensor},
};

const OP: &str = "cross_entropy";

/// What [`cross_entropy`] does beside its formula.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CrossEntropyOptions {
    /// Rows with this target have no loss and no gradient. Default: none
    pub ignore_index: Option<i64>,
    /// The part, from 0 to 1, of the target distribution that is spread over all classes. Default: 0
    pub label_smoothing: f64,
}

/// The cross-entropy of each row of logits and the class that it should be, without their probabilities.
///
/// `loss = w_t·(l − x_t)` with `l = ln(Σ exp(x_c))`; with label smoothing ε (Szegedy et al., *Rethinking the
/// Inception Architecture*, 2016) `(1 − ε)·w_t·(l − x_t) + ε/N·Σ w_c·(l − x_c)`, as in PyTorch and in
/// `burn::nn::loss::CrossEntropyLoss`, which it takes the place of as
/// [`nn::loss::CrossEntropyLoss`](crate::nn::loss::CrossEntropyLoss), the mean included. Differentiable in `logits`. Forward and
/// backward each read the logits once; between them three numbers a row are kept. The gradient is
/// written over the logits where nothing else uses them.
///
/// # Shapes
///
/// - `logits`: `[rows, classes]`
/// - `targets`: `[rows]`, the class of each, from 0 to `classes - 1`, or `ignore_index`. Another number gives
///   the row NaN, as what is on the device is not looked at.
/// - `weights`: `[classes]`, not differentiated.
/// - output: `[rows]`
///
/// # Element types
///
/// `logits` and `weights`: f16, bf16, flex32, f32 and f64, not necessarily the same; `targets` any integer.
/// The output is f32, or f64 where `logits` are, and so are sums and all arithmetic; the gradient has the type of
/// `logits`.
///
/// # Panics
///
/// With the message of the error that [`try_cross_entropy`] returns.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
/// use burn_fused::{CrossEntropyOptions, cross_entropy};
///
/// let device = Device::default();
/// let logits = Tensor::<2>::from_floats([[0., 0.], [100., 0.]], &device);
/// let targets = Tensor::<1, Int>::from_ints([1, 1], &device);
/// let losses = cross_entropy(logits, targets, None, CrossEntropyOptions::default());
/// let losses = losses.into_data().try_to_vec::<f32>().unwrap();
/// assert!((losses[0] - 2f32.ln()).abs() < 1e-6 && losses[1] == 100.0);
/// ```
#[track_caller]
pub fn cross_entropy(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    weights: Option<Tensor<1>>,
    options: CrossEntropyOptions,
) -> Tensor<1> {
    match try_cross_entropy(logits, targets, weights, options) {
        Ok(losses) => losses,
        Err(error) => panic!("{error}"),
    }
}

/// [`cross_entropy`], with an error in place of a panic.
///
/// # Errors
///
/// Before anything is launched: `targets` or `weights` of another shape, or on another device than `logits`;
/// quantised logits or weights, or such of a type in which the device does not compute exponentials; targets of one
/// that it does not have; no classes;
/// `label_smoothing` that is not from 0 to 1.
pub fn try_cross_entropy(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    weights: Option<Tensor<1>>,
    options: CrossEntropyOptions,
) -> Result<Tensor<1>, FusedError> {
    let check = Check::of(OP, "logits", &logits, Needs::Exponentials)?;
    check.parameters([("weights", weights.as_ref())], None)?;
    check.targets(&targets)?;
    let found = options.label_smoothing;
    if !(0.0..=1.0).contains(&found) {
        return Err(FusedError::Smoothing { op: OP, found });
    }
    let weights = weights.map(Tensor::into_dispatch).into();
    let (logits, targets) = (logits.into_dispatch(), targets.into_dispatch());
    Ok(Tensor::from_dispatch(Dispatch::cross_entropy(logits, targets, weights, options)))
}

/// Which path [`cross_entropy`] takes with these logits, and what it promises on it.
///
/// # Errors
///
/// Those of [`try_cross_entropy`] that concern logits.
pub fn cross_entropy_execution(logits: &Tensor<2>) -> Result<Execution, FusedError> {
    Check::of(OP, "logits", logits, Needs::Exponentials)?.rows("weights", 1)?;
    Ok(Execution::of(&logits.device(), logits.dtype()))
}

/// What the forward pass gives to its caller and to the backward pass.
#[derive(ExtensionType, Debug, Clone)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct CrossEntropyOutput<B: Backend> {
    /// `[rows]`, in the accumulator type.
    pub losses: FloatTensor<B>,
    /// `[3, rows]`, in the accumulator type: the largest logit `m`, `l − m`, and what the probabilities count
    /// in the gradient, `(1 − ε)·w_t + ε/N·Σ w_c`.
    pub saved: FloatTensor<B>,
}

/// Cross-entropy as a backend extension. A backend without a kernel inherits bodies composed of Burn's tensor
/// operations. Arguments are as [`try_cross_entropy`] leaves them: checked.
#[allow(unused_variables, reason = "without any backend there is none to dispatch to")]
#[backend_extension(
    Cube: cfg(feature = "cubecl-backend"),
    Flex: cfg(feature = "flex"),
    NdArray: cfg(feature = "ndarray"),
    LibTorch: cfg(feature = "tch"),
    Remote: cfg(feature = "remote"),
    Capture: cfg(feature = "capture"),
    Autodiff: cfg(feature = "autodiff"),
    Fusion: cfg(feature = "fusion"),
)]
pub trait CrossEntropyOps: Backend {
    /// The losses, `[rows]` in the accumulator type of `logits`.
    #[fusion(meta = losses_spec)]
    fn cross_entropy(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        #[extension_type] weights: OptionalTensor<Self>,
        options: CrossEntropyOptions,
    ) -> FloatTensor<Self> {
        Self::cross_entropy_forward(logits, targets, weights, options).losses
    }

    /// The losses and what their backward pass needs beside the inputs.
    #[fusion(meta = output_spec)]
    fn cross_entropy_forward(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        #[extension_type] weights: OptionalTensor<Self>,
        options: CrossEntropyOptions,
    ) -> CrossEntropyOutput<Self> {
        composed::cross_entropy::<Self>(logits, targets, weights, options)
    }

    /// The gradient of `logits`, in their shape and type, given `grad`, that of the losses in their shape and
    /// type, and what the forward pass `saved`.
    #[fusion(dtype = logits, shape = logits)]
    fn cross_entropy_backward(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        #[extension_type] weights: OptionalTensor<Self>,
        saved: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        options: CrossEntropyOptions,
    ) -> FloatTensor<Self> {
        composed::cross_entropy_backward::<Self>(logits, targets, weights, saved, grad, options)
    }
}

#[cfg(feature = "fusion")]
use super::{OptionalTensorMetadata, accumulator};
#[cfg(feature = "fusion")]
use burn::{backend::fusion::custom::TensorSpec, tensor::Shape};

#[cfg(feature = "fusion")]
fn losses_spec(
    logits: &TensorSpec,
    _targets: &TensorSpec,
    _weights: &OptionalTensorMetadata,
    _options: &CrossEntropyOptions,
) -> TensorSpec {
    TensorSpec::new(Shape::new([logits.shape[0]]), accumulator(logits.dtype).into())
}

#[cfg(feature = "fusion")]
fn output_spec(
    logits: &TensorSpec,
    targets: &TensorSpec,
    weights: &OptionalTensorMetadata,
    options: &CrossEntropyOptions,
) -> CrossEntropyOutputMetadata {
    let losses = losses_spec(logits, targets, weights, options);
    let saved = TensorSpec::new(Shape::new([3, logits.shape[0]]), losses.dtype);
    CrossEntropyOutputMetadata { losses, saved }
}
