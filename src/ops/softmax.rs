//! Softmax and log-softmax: public functions and the backend extension.

use super::{Check, Execution, Needs, composed};
use crate::FusedError;
use burn::{
    backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor},
    tensor::{AsIndex, Tensor},
};

/// Softmax along the dimension `dim`.
///
/// `y = exp(x − max(x)) / Σ exp(x − max(x))`, the maximum and the sum over `dim`, so that nothing
/// overflows (Bridle, *Probabilistic Interpretation of Feedforward Classification Network Outputs*,
/// 1990). Differentiable. It takes the place of `burn::tensor::activation::softmax`.
///
/// # Shapes
///
/// - `x`, output: any. `dim` is from `-D` to `D - 1`; negative ones count from the end. Another than
///   the last is read and written where it lies, without a transposed copy. A dimension of size 0
///   gives an empty tensor.
///
/// # Element types
///
/// f16, bf16, flex32, f32 and f64; the output has that of `x`. Sums and all arithmetic are f32, or
/// f64 where `x` is f64; each result is rounded once. A row that holds NaN or +∞ gives NaN, and so
/// does a row of −∞ only, as in Burn and PyTorch.
///
/// # Panics
///
/// With the message of the error that [`try_softmax`] returns.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_fused::softmax;
///
/// let x = Tensor::<2>::from_floats([[0., 0.], [1e4, 0.]], &Device::default());
/// let y = softmax(x, -1);
/// assert_eq!(y.into_data().to_vec::<f32>().unwrap(), [0.5, 0.5, 1., 0.]);
/// ```
#[track_caller]
pub fn softmax<const D: usize>(x: Tensor<D>, dim: impl AsIndex) -> Tensor<D> {
    match try_softmax(x, dim) {
        Ok(y) => y,
        Err(error) => panic!("{error}"),
    }
}

/// [`softmax`], with an error in place of a panic.
///
/// # Errors
///
/// Before anything is launched: a `dim` outside `-D..D`; a quantised `x`; one of a type in which the
/// device does not compute exponentials (f64 in WGSL and on Vulkan).
pub fn try_softmax<const D: usize>(
    x: Tensor<D>,
    dim: impl AsIndex,
) -> Result<Tensor<D>, FusedError> {
    run(x, dim, Softmax::Plain)
}

/// Which path [`softmax`] takes with these arguments, and what it promises on it.
///
/// # Errors
///
/// Those of [`try_softmax`].
pub fn softmax_execution<const D: usize>(
    x: &Tensor<D>,
    dim: impl AsIndex,
) -> Result<Execution, FusedError> {
    execution(x, dim, Softmax::Plain)
}

/// The logarithm of [`softmax`] along the dimension `dim`.
///
/// `y = x − max(x) − ln(Σ exp(x − max(x)))`, which is finite where the softmax is too small for its
/// type. Differentiable. It takes the place of `burn::tensor::activation::log_softmax`.
///
/// Shapes and element types are those of [`softmax`], and so are the rows that give NaN.
///
/// # Panics
///
/// With the message of the error that [`try_log_softmax`] returns.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_fused::log_softmax;
///
/// let x = Tensor::<2>::from_floats([[1e4, 0.]], &Device::default());
/// let y = log_softmax(x, 1);
/// assert_eq!(y.into_data().to_vec::<f32>().unwrap(), [0., -1e4]);
/// ```
#[track_caller]
pub fn log_softmax<const D: usize>(x: Tensor<D>, dim: impl AsIndex) -> Tensor<D> {
    match try_log_softmax(x, dim) {
        Ok(y) => y,
        Err(error) => panic!("{error}"),
    }
}

/// [`log_softmax`], with an error in place of a panic.
///
/// # Errors
///
/// Before anything is launched: a `dim` outside `-D..D`; a quantised `x`; one of a type in which the
/// device does not compute exponentials (f64 in WGSL and on Vulkan).
pub fn try_log_softmax<const D: usize>(
    x: Tensor<D>,
    dim: impl AsIndex,
) -> Result<Tensor<D>, FusedError> {
    run(x, dim, Softmax::Log)
}

/// Which path [`log_softmax`] takes with these arguments, and what it promises on it.
///
/// # Errors
///
/// Those of [`try_log_softmax`].
pub fn log_softmax_execution<const D: usize>(
    x: &Tensor<D>,
    dim: impl AsIndex,
) -> Result<Execution, FusedError> {
    execution(x, dim, Softmax::Log)
}

fn run<const D: usize>(
    x: Tensor<D>,
    dim: impl AsIndex,
    form: Softmax,
) -> Result<Tensor<D>, FusedError> {
    let dim = Check::new(form.name(), &x, Needs::Exponentials)?.dim(dim.as_index())?;
    Ok(Tensor::from_dispatch(Dispatch::softmax_forward(x.into_dispatch(), dim, form)))
}

fn execution<const D: usize>(
    x: &Tensor<D>,
    dim: impl AsIndex,
    form: Softmax,
) -> Result<Execution, FusedError> {
    Check::new(form.name(), x, Needs::Exponentials)?.dim(dim.as_index())?;
    Ok(Execution::of(&x.device(), x.dtype()))
}

/// What is returned of the probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Softmax {
    /// Themselves.
    Plain,
    /// Their logarithms.
    Log,
}

impl Softmax {
    /// The name of the public function.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "softmax",
            Self::Log => "log_softmax",
        }
    }
}

/// Softmax and log-softmax as a backend extension. A backend without a kernel inherits bodies
/// composed of Burn's tensor operations. `dim` is checked: less than the rank.
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
pub trait SoftmaxOps: Backend {
    /// The softmax of `x`, any shape of floats, in its shape and type.
    #[fusion(dtype = x, shape = x)]
    fn softmax_forward(x: FloatTensor<Self>, dim: usize, form: Softmax) -> FloatTensor<Self> {
        composed::softmax::<Self>(x, dim, form)
    }

    /// The gradient of the input, given the output `y` and its gradient `grad`; all three have the
    /// same shape and type.
    #[fusion(dtype = y, shape = y)]
    fn softmax_backward(
        y: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        dim: usize,
        form: Softmax,
    ) -> FloatTensor<Self> {
        composed::softmax_backward::<Self>(y, grad, dim, form)
    }
}
