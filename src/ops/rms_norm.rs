use super::{Check, Execution, Needs, Norm, NormOps, NormOptions, OptionalTensor};
use crate::FusedError;
use burn::{backend::Dispatch, tensor::Tensor};

const OP: &str = Norm::Rms.name();

/// Root mean square normalization over the last `K` dimensions, scaled by `gamma`.
///
/// `y = x / sqrt(mean(x²) + epsilon) · gamma`, after Zhang and Sennrich, *Root Mean Square Layer
/// Normalization* (2019). Differentiable in `x` and `gamma`.
///
/// # Shapes
///
/// - `x`, output: `[..., d_1, ..., d_K]`
/// - `gamma`: `[d_1, ..., d_K]`. `None::<Tensor<K>>` leaves the scaling out; `K` still says how
///   many dimensions are normalised.
/// - `options`: epsilon; or [`NormOptions`], by which `gamma` can have more dimensions than are normalised, be
///   kept less 1, and the output have another type.
///
/// # Element types
///
/// f16, bf16, flex32, f32 and f64. The output has the type of `x`, if `options` have no other; `gamma` may have another. Sums,
/// `epsilon` and all arithmetic are f32, or f64 where `x` is f64; each result is rounded once. A
/// row whose squares exceed that range (values near 1e19 and above in f32 and bf16) is scaled by a
/// power of two meanwhile. With an `epsilon` of 0 a row of zeros gives NaN, and one
/// whose squares underflow (values below 1e-19 in f32) is inexact or infinite.
///
/// # Panics
///
/// With the message of the error that [`try_rms_norm`] returns.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_fused::rms_norm;
///
/// let device = Device::default();
/// let x = Tensor::<2>::from_floats([[3., 4.], [0., 1.]], &device);
/// let gamma = Tensor::<1>::ones([2], &device);
/// let y = rms_norm(x, Some(gamma), 0.0);
/// assert!((y.into_data().to_vec::<f32>().unwrap()[0] - 0.848_528).abs() < 1e-6);
/// ```
#[track_caller]
pub fn rms_norm<const D: usize, const K: usize>(
    x: Tensor<D>,
    gamma: Option<Tensor<K>>,
    options: impl Into<NormOptions>,
) -> Tensor<D> {
    match try_rms_norm(x, gamma, options) {
        Ok(y) => y,
        Err(error) => panic!("{error}"),
    }
}

/// [`rms_norm`], with an error in place of a panic.
///
/// # Errors
///
/// Before anything is launched: a `gamma` whose shape is not that of the last `K` dimensions of
/// `x`, or that lies on another device; a quantised `x` or `gamma`, or one of a type in which the device
/// does not compute; `K` of 0 or larger than `D`;
/// rows without elements; an `epsilon` that is negative, infinite or NaN;
/// among [`NormOptions`], `axes` of 0 or more than `K`, and a type in which the device does not compute.
pub fn try_rms_norm<const D: usize, const K: usize>(
    x: Tensor<D>,
    gamma: Option<Tensor<K>>,
    options: impl Into<NormOptions>,
) -> Result<Tensor<D>, FusedError> {
    let check = Check::new(OP, &x, Needs::Arithmetic)?;
    let parameters = [("gamma", gamma.as_ref()), ("beta", None)];
    let spec = options.into().spec(Norm::Rms, &check, parameters)?;
    let gamma = gamma.map(Tensor::into_dispatch).into();
    let y = Dispatch::norm(x.into_dispatch(), gamma, OptionalTensor::None, spec);
    Ok(Tensor::from_dispatch(y))
}

/// Which path [`rms_norm`] takes with these arguments, and what it promises on it.
///
/// # Errors
///
/// Those of [`try_rms_norm`] with an epsilon for options, save epsilon's own. Options change neither path nor
/// accumulator.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_fused::{ops::Path, rms_norm_execution};
///
/// let x = Tensor::<2>::zeros([8, 64], &Device::default());
/// let execution = rms_norm_execution(&x, None::<&Tensor<1>>)?;
/// println!("{}, sums in {:?}", execution.path, execution.accumulator);
/// assert_eq!(execution.deterministic, execution.path == Path::Fused);
/// # Ok::<(), burn_fused::FusedError>(())
/// ```
pub fn rms_norm_execution<const D: usize, const K: usize>(
    x: &Tensor<D>,
    gamma: Option<&Tensor<K>>,
) -> Result<Execution, FusedError> {
    Check::new(OP, x, Needs::Arithmetic)?.parameters([("gamma", gamma)], None)?;
    Ok(Execution::of(&x.device(), x.dtype()))
}
