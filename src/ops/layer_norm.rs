use super::{Check, Execution, Needs, Norm, NormOps, NormOptions};
use crate::FusedError;
use burn::{backend::Dispatch, tensor::Tensor};

const OP: &str = Norm::Layer.name();

/// Layer normalization over the last `K` dimensions, scaled by `gamma` and shifted by `beta`.
///
/// `y = (x − mean(x)) / sqrt(variance(x) + epsilon) · gamma + beta` with the biased variance
/// `mean((x − mean(x))²)`, after Ba, Kiros and Hinton, *Layer Normalization* (2016). The variance is
/// taken by the corrected two-pass algorithm of Chan, Golub and LeVeque, *Algorithms for Computing
/// the Sample Variance* (1983), so its error does not grow with the mean. Differentiable in `x`,
/// `gamma` and `beta`.
///
/// # Shapes
///
/// - `x`, output: `[..., d_1, ..., d_K]`
/// - `gamma`, `beta`: `[d_1, ..., d_K]`, each optional. With `None::<Tensor<K>>` for both, `K` still
///   says how many dimensions are normalised.
/// - `options`: epsilon; or [`NormOptions`], by which `gamma` and `beta` can have more dimensions than are
///   normalised, `gamma` be kept less 1, and the output have another type.
///
/// # Element types
///
/// f16, bf16, flex32, f32 and f64. The output has the type of `x`, if `options` have no other; `gamma` and
/// `beta` may each have another. Sums, `epsilon` and all arithmetic are f32, or f64 where `x` is f64; each result is
/// rounded once. With an `epsilon` of 0 a row of equal values gives NaN, or what rounding
/// leaves of it; rows whose squares underflow are as inexact as those.
///
/// # Panics
///
/// With the message of the error that [`try_layer_norm`] returns.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_fused::layer_norm;
///
/// let device = Device::default();
/// let x = Tensor::<2>::from_floats([[1., 3.], [0., 4.]], &device);
/// let beta = Tensor::<1>::ones([2], &device);
/// let y = layer_norm(x, None, Some(beta), 0.0);
/// assert_eq!(y.into_data().to_vec::<f32>().unwrap(), [0., 2., 0., 2.]);
/// ```
#[track_caller]
pub fn layer_norm<const D: usize, const K: usize>(
    x: Tensor<D>,
    gamma: Option<Tensor<K>>,
    beta: Option<Tensor<K>>,
    options: impl Into<NormOptions>,
) -> Tensor<D> {
    match try_layer_norm(x, gamma, beta, options) {
        Ok(y) => y,
        Err(error) => panic!("{error}"),
    }
}

/// [`layer_norm`], with an error in place of a panic.
///
/// # Errors
///
/// Before anything is launched: a `gamma` or `beta` whose shape is not that of the last `K`
/// dimensions of `x`, or that lies on another device; a quantised argument, or one of a type in which the device
/// does not compute; `K` of 0 or larger than
/// `D`; rows without elements; an `epsilon` that is negative, infinite or NaN;
/// among [`NormOptions`], `axes` of 0 or more than `K`, and a type in which the device does not compute.
pub fn try_layer_norm<const D: usize, const K: usize>(
    x: Tensor<D>,
    gamma: Option<Tensor<K>>,
    beta: Option<Tensor<K>>,
    options: impl Into<NormOptions>,
) -> Result<Tensor<D>, FusedError> {
    let check = Check::new(OP, &x, Needs::Arithmetic)?;
    let parameters = [("gamma", gamma.as_ref()), ("beta", beta.as_ref())];
    let spec = options.into().spec(Norm::Layer, &check, parameters)?;
    let [gamma, beta] = [gamma, beta].map(|parameter| parameter.map(Tensor::into_dispatch).into());
    let y = Dispatch::norm(x.into_dispatch(), gamma, beta, spec);
    Ok(Tensor::from_dispatch(y))
}

/// Which path [`layer_norm`] takes with these arguments, and what it promises on it.
///
/// # Errors
///
/// Those of [`try_layer_norm`] with an epsilon for options, save epsilon's own. Options change neither path nor
/// accumulator.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_fused::layer_norm_execution;
///
/// let x = Tensor::<2>::zeros([8, 64], &Device::default());
/// let execution = layer_norm_execution(&x, None::<&Tensor<1>>, None)?;
/// println!("{}, sums in {:?}", execution.path, execution.accumulator);
/// # Ok::<(), burn_fused::FusedError>(())
/// ```
pub fn layer_norm_execution<const D: usize, const K: usize>(
    x: &Tensor<D>,
    gamma: Option<&Tensor<K>>,
    beta: Option<&Tensor<K>>,
) -> Result<Execution, FusedError> {
    let check = Check::new(OP, x, Needs::Arithmetic)?;
    check.parameters([("gamma", gamma), ("beta", beta)], None)?;
    Ok(Execution::of(&x.device(), x.dtype()))
}
