//! A residual connection and the norm behind it in one pass.

use super::{Check, Needs, Norm, NormOps, NormOptions, NormSpec, OptionalTensor};
use crate::FusedError;
use burn::{backend::Dispatch, tensor::Tensor};

const RMS: &str = "add_rms_norm";
const LAYER: &str = "add_layer_norm";

/// [`rms_norm`](crate::rms_norm) of `x + residual`, and that sum: `(normalized, sum)`.
///
/// A pre-norm transformer adds each block's output to the residual stream and normalises the sum for
/// the next block. Here that is one kernel that reads both and writes both; backward one kernel takes the
/// gradients of both outputs and writes one gradient, which is that of `x` and of `residual`.
///
/// The sum is rounded to its type before it is normalised: both outputs are the bits of
/// `let sum = x + residual; rms_norm(sum, gamma, epsilon)`, and so are gradients but that they are rounded once where
/// those of both outputs meet. Differentiable in `x`, `residual` and `gamma`, also where only one output is
/// used; where that is the sum alone, the gradient of a tracked `gamma` is zero rather than none. For the backward
/// pass the sum is kept, not `x` or `residual` (under gradient checkpointing it is computed from them again).
///
/// # Shapes
///
/// - `x`, `residual`, both outputs: `[..., d_1, ..., d_K]`
/// - `gamma`: `[d_1, ..., d_K]`, or `None::<Tensor<K>>`.
/// - `options`: epsilon, or [`NormOptions`]. A type among them is that of the normalised output; the sum has that
///   of `x`.
///
/// # Element types
///
/// Those of [`rms_norm`](crate::rms_norm); `residual` has that of `x`. The same calls run fused and composed:
/// [`rms_norm_execution`](crate::rms_norm_execution) tells.
///
/// # Panics
///
/// With the message of the error that [`try_add_rms_norm`] returns.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_fused::add_rms_norm;
///
/// let device = Device::default();
/// let x = Tensor::<2>::from_floats([[1., 2.]], &device);
/// let residual = Tensor::<2>::from_floats([[2., 2.]], &device);
/// let (y, sum) = add_rms_norm(x, residual, None::<Tensor<1>>, 0.0);
/// assert_eq!(sum.into_data().to_vec::<f32>().unwrap(), [3., 4.]);
/// assert!((y.into_data().to_vec::<f32>().unwrap()[0] - 0.848_528).abs() < 1e-6);
/// ```
#[track_caller]
pub fn add_rms_norm<const D: usize, const K: usize>(
    x: Tensor<D>,
    residual: Tensor<D>,
    gamma: Option<Tensor<K>>,
    options: impl Into<NormOptions>,
) -> (Tensor<D>, Tensor<D>) {
    match try_add_rms_norm(x, residual, gamma, options) {
        Ok(outputs) => outputs,
        Err(error) => panic!("{error}"),
    }
}

/// [`add_rms_norm`], with an error in place of a panic.
///
/// # Errors
///
/// Those of [`try_rms_norm`](crate::try_rms_norm), and a `residual` of another shape, type or device than `x`.
pub fn try_add_rms_norm<const D: usize, const K: usize>(
    x: Tensor<D>,
    residual: Tensor<D>,
    gamma: Option<Tensor<K>>,
    options: impl Into<NormOptions>,
) -> Result<(Tensor<D>, Tensor<D>), FusedError> {
    let check = Check::new(RMS, &x, Needs::Arithmetic)?;
    check.like_x("residual", &residual)?;
    let parameters = [("gamma", gamma.as_ref()), ("beta", None)];
    let spec = options.into().spec(Norm::Rms, &check, parameters)?;
    Ok(run(x, residual, [gamma, None], spec))
}

/// [`layer_norm`](crate::layer_norm) of `x + residual`, and that sum: `(normalized, sum)`.
///
/// As [`add_rms_norm`], in all else; also differentiable in `beta`, of the shape of `gamma`.
///
/// # Panics
///
/// With the message of the error that [`try_add_layer_norm`] returns.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_fused::add_layer_norm;
///
/// let device = Device::default();
/// let x = Tensor::<2>::from_floats([[1., 2.]], &device);
/// let residual = Tensor::<2>::from_floats([[0., 1.]], &device);
/// let (y, sum) = add_layer_norm(x, residual, None::<Tensor<1>>, None, 0.0);
/// assert_eq!(sum.into_data().to_vec::<f32>().unwrap(), [1., 3.]);
/// assert_eq!(y.into_data().to_vec::<f32>().unwrap(), [-1., 1.]);
/// ```
#[track_caller]
pub fn add_layer_norm<const D: usize, const K: usize>(
    x: Tensor<D>,
    residual: Tensor<D>,
    gamma: Option<Tensor<K>>,
    beta: Option<Tensor<K>>,
    options: impl Into<NormOptions>,
) -> (Tensor<D>, Tensor<D>) {
    match try_add_layer_norm(x, residual, gamma, beta, options) {
        Ok(outputs) => outputs,
        Err(error) => panic!("{error}"),
    }
}

/// [`add_layer_norm`], with an error in place of a panic.
///
/// # Errors
///
/// Those of [`try_layer_norm`](crate::try_layer_norm), and a `residual` of another shape, type or device than
/// `x`.
pub fn try_add_layer_norm<const D: usize, const K: usize>(
    x: Tensor<D>,
    residual: Tensor<D>,
    gamma: Option<Tensor<K>>,
    beta: Option<Tensor<K>>,
    options: impl Into<NormOptions>,
) -> Result<(Tensor<D>, Tensor<D>), FusedError> {
    let check = Check::new(LAYER, &x, Needs::Arithmetic)?;
    check.like_x("residual", &residual)?;
    let parameters = [("gamma", gamma.as_ref()), ("beta", beta.as_ref())];
    let spec = options.into().spec(Norm::Layer, &check, parameters)?;
    Ok(run(x, residual, [gamma, beta], spec))
}

fn run<const D: usize, const K: usize>(
    x: Tensor<D>,
    residual: Tensor<D>,
    parameters: [Option<Tensor<K>>; 2],
    spec: NormSpec,
) -> (Tensor<D>, Tensor<D>) {
    let [gamma, beta]: [OptionalTensor<_>; 2] =
        parameters.map(|parameter| parameter.map(Tensor::into_dispatch).into());
    let (x, residual) = (x.into_dispatch(), residual.into_dispatch());
    let outputs = Dispatch::add_norm(x, residual, gamma, beta, spec);
    (Tensor::from_dispatch(outputs.y), Tensor::from_dispatch(outputs.sum))
}
