//! The softmax of attention scores, scaled and masked: the public function and the backend extension.

use super::{Check, Execution, Needs, OptionalBoolTensor, OptionalTensor, composed};
use crate::FusedError;
use burn::{
    backend::{Backend, Dispatch, ExtensionType, backend_extension, tensor::FloatTensor},
    tensor::{Bool, DType, Shape, Tensor},
};

const OP: &str = "attention_softmax";

/// What [`attention_softmax`] does beside its formula.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionSoftmaxOptions {
    /// What scores are multiplied by, as a rule `1 / √d`. Default: 1
    pub scale: f64,
    /// Whether a query sees no key behind its own: query `i` sees keys 0 to `i + offset`. `Some(0)` where queries
    /// and keys begin together; with cached keys the number of those before the first query,
    /// `keys - queries`. Default: none, it sees all
    pub causal: Option<usize>,
}

impl Default for AttentionSoftmaxOptions {
    fn default() -> Self {
        Self { scale: 1.0, causal: None }
    }
}

/// The softmax of attention scores along their last dimension, scaled, biased and masked on the way.
///
/// `y = softmax(scale·x + bias)` (Vaswani et al., *Attention Is All You Need*, 2017) over what is neither
/// masked nor causally out of sight, and 0 there. What is left out may be anything, NaN too. A row of which
/// nothing is left, or −∞ only, gives zeros, and zero gradients where those of the output are finite. A finite mask is a bias
/// like any other: where it is so large that all of a row's scores round to one, they are alike. Differentiable in
/// `x` and `bias`. One kernel forward and one backward; where `bias` is tracked, one more that sums its
/// gradient in a fixed order, behind casts and a copy where types and broadcasting ask for them. It takes the place of the scaling,
/// masking and `burn::tensor::activation::softmax` in attention; dropout comes after it.
///
/// # Shapes
///
/// - `x`, output: `[.., queries, keys]`, any rank.
/// - `mask`: each dimension that of `x`, or 1. True is left out, as in Burn's own attention.
/// - `bias`: likewise.
///
/// # Element types
///
/// `x` and `bias`: f16, bf16, flex32, f32 and f64, not necessarily the same. The output has the type of `x`.
/// Sums and all arithmetic are f32, or f64 where `x` is f64; each result is rounded once. A row that
/// holds NaN or +∞ where it is not left out gives NaN.
///
/// # Panics
///
/// With the message of the error that [`try_attention_softmax`] returns.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_fused::{AttentionSoftmaxOptions, attention_softmax};
///
/// let scores = Tensor::<3>::zeros([1, 2, 4], &Device::default());
/// // Two keys are cached.
/// let options = AttentionSoftmaxOptions { scale: 0.125, causal: Some(2) };
/// let y = attention_softmax(scores, None, None, options);
/// let third = 1.0 / 3.0;
/// let expected = [third, third, third, 0.0, 0.25, 0.25, 0.25, 0.25];
/// assert_eq!(y.into_data().try_to_vec::<f32>().unwrap(), expected);
/// ```
#[track_caller]
pub fn attention_softmax<const D: usize>(
    x: Tensor<D>,
    mask: Option<Tensor<D, Bool>>,
    bias: Option<Tensor<D>>,
    options: AttentionSoftmaxOptions,
) -> Tensor<D> {
    match try_attention_softmax(x, mask, bias, options) {
        Ok(y) => y,
        Err(error) => panic!("{error}"),
    }
}

/// [`attention_softmax`], with an error in place of a panic.
///
/// # Errors
///
/// Before anything is launched: `mask` or `bias` of a shape that does not broadcast to that of `x`, or on
/// another device; quantised `x` or `bias`, or such of a type in which the device does not compute
/// exponentials (f64 in WGSL and on Vulkan); a `scale` that is not finite, or not in the type of sums.
pub fn try_attention_softmax<const D: usize>(
    x: Tensor<D>,
    mask: Option<Tensor<D, Bool>>,
    bias: Option<Tensor<D>>,
    options: AttentionSoftmaxOptions,
) -> Result<Tensor<D>, FusedError> {
    let check = Check::new(OP, &x, Needs::Exponentials)?;
    if let Some(mask) = &mask {
        check.broadcasts("mask", &mask.dims(), mask.device())?;
    }
    if let Some(bias) = &bias {
        check.broadcasts("bias", &bias.dims(), bias.device())?;
        check.computed("bias", bias.dtype())?;
    }
    let found = options.scale;
    let in_accumulator = if x.dtype() == DType::F64 { found } else { (found as f32).into() };
    if !in_accumulator.is_finite() {
        return Err(FusedError::Scale { op: OP, found });
    }
    // All are seen then; more is no number on some devices.
    let keys = x.dims()[D - 1];
    let causal = options.causal.map(|offset| offset.min(keys));
    let options = AttentionSoftmaxOptions { causal, ..options };
    let mask = mask.map(Tensor::into_dispatch).into();
    let bias = bias.map(Tensor::into_dispatch).into();
    let y = Dispatch::attention_softmax_forward(x.into_dispatch(), mask, bias, options);
    Ok(Tensor::from_dispatch(y))
}

/// Which path [`attention_softmax`] takes with these scores, and what it promises on it.
///
/// # Errors
///
/// Those of [`try_attention_softmax`] that concern `x`.
pub fn attention_softmax_execution<const D: usize>(x: &Tensor<D>) -> Result<Execution, FusedError> {
    Check::new(OP, x, Needs::Exponentials)?;
    Ok(Execution::of(&x.device(), x.dtype()))
}

/// Which gradients are asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionSoftmaxWanted {
    /// Whether that of the scores is.
    pub x: bool,
    /// The type and shape of the bias, if its gradient is.
    pub bias: Option<(DType, Shape)>,
}

/// The gradients that are asked for.
#[derive(ExtensionType, Debug, Clone)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct AttentionSoftmaxGradients<B: Backend> {
    /// Gradient of the scores.
    #[extension_type]
    pub x: OptionalTensor<B>,
    /// Gradient of the bias.
    #[extension_type]
    pub bias: OptionalTensor<B>,
}

/// The softmax of attention scores as a backend extension. A backend without a kernel inherits bodies
/// composed of Burn's tensor operations. Arguments are as [`try_attention_softmax`] leaves them: checked, and `causal` at
/// most the number of keys.
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
pub trait AttentionSoftmaxOps: Backend {
    /// The softmax, in the shape and type of `x`.
    #[fusion(dtype = x, shape = x)]
    fn attention_softmax_forward(
        x: FloatTensor<Self>,
        #[extension_type] mask: OptionalBoolTensor<Self>,
        #[extension_type] bias: OptionalTensor<Self>,
        options: AttentionSoftmaxOptions,
    ) -> FloatTensor<Self> {
        composed::attention_softmax::<Self>(x, mask, bias, options)
    }

    /// The gradients that are `wanted`, given the output `y` and its gradient `grad`, which have the same
    /// shape and type.
    #[fusion(meta = gradients_spec)]
    fn attention_softmax_backward(
        y: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        scale: f64,
        wanted: AttentionSoftmaxWanted,
    ) -> AttentionSoftmaxGradients<Self> {
        composed::attention_softmax_backward::<Self>(y, grad, scale, wanted)
    }
}

#[cfg(feature = "fusion")]
use super::OptionalTensorMetadata;
#[cfg(feature = "fusion")]
use burn::backend::fusion::custom::TensorSpec;

#[cfg(feature = "fusion")]
fn gradients_spec(
    y: &TensorSpec,
    _grad: &TensorSpec,
    _scale: &f64,
    wanted: &AttentionSoftmaxWanted,
) -> AttentionSoftmaxGradientsMetadata {
    use OptionalTensorMetadata::{None, Some};
    let bias = wanted.bias.as_ref();
    AttentionSoftmaxGradientsMetadata {
        x: if wanted.x { Some(y.clone()) } else { None },
        bias: bias.map_or(None, |(dtype, shape)| Some(TensorSpec::new(shape.clone(), *dtype))),
    }
}
