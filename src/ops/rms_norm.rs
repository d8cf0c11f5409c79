use super::{
    Check, Execution, OptionalTensor, accumulator, log_composed, matrix, narrow, row_mean, sum,
    widen,
};
use crate::FusedError;
use burn::{
    backend::{
        Backend, Dispatch, ExtensionType, TensorMetadata, backend_extension, tensor::FloatTensor,
    },
    tensor::{Shape, Tensor},
};

const OP: &str = "rms_norm";

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
///
/// # Element types
///
/// f16, bf16, flex32, f32 and f64. The output has the type of `x`; `gamma` may have another. Sums,
/// `epsilon` and all arithmetic are f32, or f64 where `x` is f64; each result is rounded once. A
/// row whose sum of squares exceeds that range (values near 1e19 in f32 and bf16) gives zeros.
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
    epsilon: f64,
) -> Tensor<D> {
    match try_rms_norm(x, gamma, epsilon) {
        Ok(y) => y,
        Err(error) => panic!("{error}"),
    }
}

/// [`rms_norm`], with an error in place of a panic.
///
/// # Errors
///
/// Before anything is launched: a `gamma` whose shape is not that of the last `K` dimensions of
/// `x`, or that lies on another device; a quantised `x` or `gamma`; `K` of 0 or larger than `D`;
/// rows without elements; an `epsilon` that is negative, infinite or NaN.
pub fn try_rms_norm<const D: usize, const K: usize>(
    x: Tensor<D>,
    gamma: Option<Tensor<K>>,
    epsilon: f64,
) -> Result<Tensor<D>, FusedError> {
    check(&x, gamma.as_ref())?.epsilon(epsilon)?;
    let gamma = gamma.map(Tensor::into_dispatch).into();
    Ok(Tensor::from_dispatch(Dispatch::rms_norm(x.into_dispatch(), gamma, K, epsilon)))
}

/// Which path [`rms_norm`] takes with these arguments, and what it promises on it.
///
/// # Errors
///
/// Those of [`try_rms_norm`], save epsilon's.
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
    check(x, gamma)?;
    let parameters = gamma.map(Tensor::dtype);
    Ok(Execution::of(&x.device(), x.dtype(), parameters.as_slice()))
}

fn check<'a, const D: usize, const K: usize>(
    x: &'a Tensor<D>,
    gamma: Option<&Tensor<K>>,
) -> Result<Check<'a, D>, FusedError> {
    let check = Check::new(OP, x)?;
    check.rows("gamma", K)?;
    gamma.map_or(Ok(()), |gamma| check.parameter("gamma", gamma))?;
    Ok(check)
}

/// What the forward pass gives to its caller and to the backward pass.
#[derive(ExtensionType, Debug, Clone)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct RmsNormOutput<B: Backend> {
    /// The normalised rows, shape and type of the input.
    pub y: FloatTensor<B>,
    /// `1 / sqrt(mean(x²) + epsilon)` of each row, shape `[rows]`, in the accumulator type.
    pub inverse_rms: FloatTensor<B>,
}

/// Gradients of the input and of gamma, each where it was asked for.
#[derive(ExtensionType, Debug, Clone)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct RmsNormGradients<B: Backend> {
    /// Gradient of the input, in its shape and type.
    #[extension_type]
    pub x: OptionalTensor<B>,
    /// Gradient of gamma, in its shape and type.
    #[extension_type]
    pub gamma: OptionalTensor<B>,
}

/// RMSNorm as a backend extension. A backend without a kernel inherits bodies composed of Burn's
/// tensor operations. Arguments are as [`try_rms_norm`] leaves them: checked.
///
/// `axes` is the number of trailing dimensions that form a row.
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
pub trait RmsNormOps: Backend {
    /// The normalised rows.
    #[fusion(dtype = x, shape = x)]
    fn rms_norm(
        x: FloatTensor<Self>,
        #[extension_type] gamma: OptionalTensor<Self>,
        axes: usize,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        Self::rms_norm_forward(x, gamma, axes, epsilon).y
    }

    /// The normalised rows and what their backward pass needs beside the input.
    #[fusion(meta = output_spec)]
    fn rms_norm_forward(
        x: FloatTensor<Self>,
        #[extension_type] gamma: OptionalTensor<Self>,
        axes: usize,
        epsilon: f64,
    ) -> RmsNormOutput<Self> {
        composed_forward(x, gamma, axes, epsilon)
    }

    /// The gradients that are asked for, given that of the output. `wants_gamma` needs a `gamma`.
    #[fusion(meta = gradients_spec)]
    fn rms_norm_backward(
        x: FloatTensor<Self>,
        #[extension_type] gamma: OptionalTensor<Self>,
        inverse_rms: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        axes: usize,
        wants_x: bool,
        wants_gamma: bool,
    ) -> RmsNormGradients<Self> {
        composed_backward(x, gamma, inverse_rms, grad, axes, wants_x, wants_gamma)
    }
}

pub(crate) fn composed_forward<B: Backend>(
    x: FloatTensor<B>,
    gamma: OptionalTensor<B>,
    axes: usize,
    epsilon: f64,
) -> RmsNormOutput<B> {
    log_composed::<B>(OP, &x.device());
    let (shape, dtype, acc) = (x.shape(), x.dtype(), accumulator(x.dtype()));
    let [rows, columns] = matrix(&shape, axes);
    if rows == 0 {
        let inverse_rms = B::float_zeros(Shape::new([0]), &x.device(), acc);
        return RmsNormOutput { y: x, inverse_rms };
    }
    let x = widen::<B>(x, acc, [rows, columns]);
    let mean_square = row_mean::<B>(B::float_mul(x.clone(), x.clone()));
    let root = B::float_sqrt(B::float_add_scalar(mean_square, epsilon.into()));
    let inverse_rms = B::float_recip(root);
    let mut y = B::float_mul(x, inverse_rms.clone());
    if let OptionalTensor::Some(gamma) = gamma {
        y = B::float_mul(y, widen::<B>(gamma, acc, [1, columns]));
    }
    RmsNormOutput {
        y: narrow::<B>(y, dtype, shape),
        inverse_rms: B::float_reshape(inverse_rms, Shape::new([rows])),
    }
}

pub(crate) fn composed_backward<B: Backend>(
    x: FloatTensor<B>,
    gamma: OptionalTensor<B>,
    inverse_rms: FloatTensor<B>,
    grad: FloatTensor<B>,
    axes: usize,
    wants_x: bool,
    wants_gamma: bool,
) -> RmsNormGradients<B> {
    let (shape, dtype, acc) = (x.shape(), x.dtype(), accumulator(x.dtype()));
    let [rows, columns] = matrix(&shape, axes);
    let gamma = gamma.into_option();
    let parameter = gamma.as_ref().map(|gamma| (gamma.shape(), gamma.dtype()));
    if rows == 0 {
        let device = x.device();
        let zeros = |(shape, dtype): (Shape, burn::tensor::DType)| {
            B::float_zeros(shape, &device, dtype.into())
        };
        return RmsNormGradients {
            gamma: parameter.filter(|_| wants_gamma).map(zeros).into(),
            x: wants_x.then_some(x).into(),
        };
    }
    let inverse_rms = B::float_reshape(inverse_rms, Shape::new([rows, 1]));
    let normalized = B::float_mul(widen::<B>(x, acc, [rows, columns]), inverse_rms.clone());
    let grad = widen::<B>(grad, acc, [rows, columns]);
    let gamma_grad = parameter.filter(|_| wants_gamma).map(|(shape, dtype)| {
        let products = B::float_mul(grad.clone(), normalized.clone());
        narrow::<B>(sum::<B>(products, 0), dtype, shape)
    });
    let x_grad = wants_x.then(|| {
        let scaled = match gamma {
            Some(gamma) => B::float_mul(grad, widen::<B>(gamma, acc, [1, columns])),
            None => grad,
        };
        let mean = row_mean::<B>(B::float_mul(scaled.clone(), normalized.clone()));
        let inner = B::float_sub(scaled, B::float_mul(normalized, mean));
        narrow::<B>(B::float_mul(inner, inverse_rms), dtype, shape)
    });
    RmsNormGradients { x: x_grad.into(), gamma: gamma_grad.into() }
}

#[cfg(feature = "fusion")]
use super::OptionalTensorMetadata;
#[cfg(feature = "fusion")]
use burn::backend::fusion::custom::TensorSpec;

#[cfg(feature = "fusion")]
fn output_spec(
    x: &TensorSpec,
    _gamma: &OptionalTensorMetadata,
    axes: &usize,
    _epsilon: &f64,
) -> RmsNormOutputMetadata {
    let [rows, _] = matrix(&x.shape, *axes);
    RmsNormOutputMetadata {
        y: x.clone(),
        inverse_rms: TensorSpec::new(Shape::new([rows]), accumulator(x.dtype).into()),
    }
}

#[cfg(feature = "fusion")]
fn gradients_spec(
    x: &TensorSpec,
    gamma: &OptionalTensorMetadata,
    _inverse_rms: &TensorSpec,
    _grad: &TensorSpec,
    _axes: &usize,
    wants_x: &bool,
    wants_gamma: &bool,
) -> RmsNormGradientsMetadata {
    RmsNormGradientsMetadata {
        x: match wants_x {
            true => OptionalTensorMetadata::Some(x.clone()),
            false => OptionalTensorMetadata::None,
        },
        gamma: match wants_gamma {
            true => gamma.clone(),
            false => OptionalTensorMetadata::None,
        },
    }
}
