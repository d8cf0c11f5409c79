//! RMSNorm and LayerNorm as a backend extension: they differ in that LayerNorm subtracts the mean.

use super::{OptionalTensor, composed};
use burn::{
    backend::{Backend, ExtensionType, backend_extension, tensor::FloatTensor},
    tensor::{DType, FloatDType, Shape},
};

/// What is subtracted from a row before it is divided by its root mean square.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// RMSNorm: nothing.
    Rms,
    /// LayerNorm: its mean.
    Layer,
}

impl Norm {
    /// The name of the public function.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rms => "rms_norm",
            Self::Layer => "layer_norm",
        }
    }

    /// Numbers that are kept of a row for its backward pass.
    pub(crate) const fn statistics(self) -> usize {
        match self {
            Self::Rms => 1,
            Self::Layer => 3,
        }
    }
}

/// A call beside its tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormSpec {
    /// Which of the two it is.
    pub norm: Norm,
    /// Trailing dimensions of the input that form a row.
    pub axes: usize,
    /// Trailing dimensions of the input whose shape gamma and beta have: `axes`, or more where rows have
    /// parameters of their own, as attention's heads do.
    pub parameter_axes: usize,
    /// Added to the variance or mean square.
    pub epsilon: f64,
    /// Whether rows are multiplied by `1 + gamma`.
    pub zero_centered_gamma: bool,
    /// The output's type.
    pub dtype: FloatDType,
}

impl NormSpec {
    /// As usual: parameters that all rows share, gamma as it is.
    pub fn new(norm: Norm, axes: usize, epsilon: f64, dtype: FloatDType) -> Self {
        Self { norm, axes, parameter_axes: axes, epsilon, zero_centered_gamma: false, dtype }
    }

    /// The shape of gamma and beta for an input of `shape`.
    pub(crate) fn parameter(&self, shape: &Shape) -> Shape {
        Shape::from(shape[shape.num_dims() - self.parameter_axes..].to_vec())
    }

    /// Rows in a row of parameters' turn: 1 where all rows share them.
    pub(crate) fn heads(&self, shape: &Shape) -> usize {
        let rank = shape.num_dims();
        shape[rank - self.parameter_axes..rank - self.axes].iter().product()
    }
}

/// What the forward pass gives to its caller and to the backward pass.
#[derive(ExtensionType, Debug, Clone)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct NormOutput<B: Backend> {
    /// The normalised rows, in the shape of the input.
    pub y: FloatTensor<B>,
    /// Each row's statistics in the accumulator type. RMSNorm, shape `[1, rows]`:
    /// `1 / sqrt(mean(x²) + epsilon)`. LayerNorm, shape `[3, rows]`: `1 / sqrt(variance + epsilon)`,
    /// and the mean as the sum of a near one and the rest, so that it is exact beyond its type.
    pub statistics: FloatTensor<B>,
}

/// The normalised sum, and the sum.
#[derive(ExtensionType, Debug, Clone)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct AddNormOutput<B: Backend> {
    /// The sum's rows, normalised.
    pub y: FloatTensor<B>,
    /// The sum.
    pub sum: FloatTensor<B>,
}

/// [`AddNormOutput`] with what its backward pass needs beside the sum.
#[derive(ExtensionType, Debug, Clone)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct AddNormForward<B: Backend> {
    /// The sum's rows, normalised.
    pub y: FloatTensor<B>,
    /// The sum.
    pub sum: FloatTensor<B>,
    /// Those of [`NormOutput`].
    pub statistics: FloatTensor<B>,
}

/// The gradients that a backward pass starts from.
#[derive(ExtensionType, Debug, Clone)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct NormUpstream<B: Backend> {
    /// That of the output, in its shape and type.
    pub y: FloatTensor<B>,
    /// What reaches the input from elsewhere, if anything does, in the same shape and type.
    #[extension_type]
    pub x: OptionalTensor<B>,
}

/// The gradients that a backward pass is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NormWanted {
    /// That of the input.
    pub x: bool,
    /// That of gamma, which must be given then.
    pub gamma: bool,
    /// That of beta, in this type.
    pub beta: Option<DType>,
}

/// Gradients, each where it was asked for, in the shape and type of what they belong to.
#[derive(ExtensionType, Debug, Clone)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct NormGradients<B: Backend> {
    /// Gradient of the input.
    #[extension_type]
    pub x: OptionalTensor<B>,
    /// Gradient of gamma.
    #[extension_type]
    pub gamma: OptionalTensor<B>,
    /// Gradient of beta.
    #[extension_type]
    pub beta: OptionalTensor<B>,
}

/// RMSNorm and LayerNorm as a backend extension. A backend without a kernel inherits bodies
/// composed of Burn's tensor operations. Arguments are as [`try_rms_norm`](crate::try_rms_norm) and
/// [`try_layer_norm`](crate::try_layer_norm) leave them: checked.
///
/// `x`, outputs and gradients have any shape of floats; its last `axes` dimensions form a row, and
/// `gamma` and `beta` have the shape of its last `parameter_axes`. All on one device. Kernels panic where shapes do not agree.
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
pub trait NormOps: Backend {
    /// The normalised rows, in the shape of `x`.
    #[fusion(meta = norm_spec)]
    fn norm(
        x: FloatTensor<Self>,
        #[extension_type] gamma: OptionalTensor<Self>,
        #[extension_type] beta: OptionalTensor<Self>,
        spec: NormSpec,
    ) -> FloatTensor<Self> {
        Self::norm_forward(x, gamma, beta, spec).y
    }

    /// The normalised rows and what their backward pass needs beside the input.
    #[fusion(meta = output_spec)]
    fn norm_forward(
        x: FloatTensor<Self>,
        #[extension_type] gamma: OptionalTensor<Self>,
        #[extension_type] beta: OptionalTensor<Self>,
        spec: NormSpec,
    ) -> NormOutput<Self> {
        composed::norm_forward(x, gamma, beta, spec)
    }

    /// The sum of `x` and `residual`, which has its shape and type, rounded to that type; and its rows
    /// normalised.
    #[fusion(meta = add_norm_spec)]
    fn add_norm(
        x: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        #[extension_type] gamma: OptionalTensor<Self>,
        #[extension_type] beta: OptionalTensor<Self>,
        spec: NormSpec,
    ) -> AddNormOutput<Self> {
        let AddNormForward { y, sum, .. } = Self::add_norm_forward(x, residual, gamma, beta, spec);
        AddNormOutput { y, sum }
    }

    /// [`NormOps::add_norm`], and what the backward pass, which is [`NormOps::norm_backward`], needs beside
    /// the sum.
    #[fusion(meta = add_norm_forward_spec)]
    fn add_norm_forward(
        x: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        #[extension_type] gamma: OptionalTensor<Self>,
        #[extension_type] beta: OptionalTensor<Self>,
        spec: NormSpec,
    ) -> AddNormForward<Self> {
        let sum = Self::float_add(x, residual);
        let NormOutput { y, statistics } = Self::norm_forward(sum.clone(), gamma, beta, spec);
        AddNormForward { y, sum, statistics }
    }

    /// The gradients that are `wanted`, given those `upstream` and the forward pass's `statistics`. That of
    /// the input has in it what reaches it from elsewhere.
    #[fusion(meta = gradients_spec)]
    fn norm_backward(
        x: FloatTensor<Self>,
        #[extension_type] gamma: OptionalTensor<Self>,
        statistics: FloatTensor<Self>,
        #[extension_type] upstream: NormUpstream<Self>,
        spec: NormSpec,
        wanted: NormWanted,
    ) -> NormGradients<Self> {
        composed::norm_backward(x, gamma, statistics, upstream, spec, wanted)
    }
}

#[cfg(feature = "fusion")]
use super::{OptionalTensorMetadata, accumulator, matrix};
#[cfg(feature = "fusion")]
use burn::backend::fusion::custom::TensorSpec;

#[cfg(feature = "fusion")]
fn y_spec(x: &TensorSpec, spec: &NormSpec) -> TensorSpec {
    TensorSpec::new(x.shape.clone(), spec.dtype.into())
}

#[cfg(feature = "fusion")]
fn norm_spec(
    x: &TensorSpec,
    _gamma: &OptionalTensorMetadata,
    _beta: &OptionalTensorMetadata,
    spec: &NormSpec,
) -> TensorSpec {
    y_spec(x, spec)
}

#[cfg(feature = "fusion")]
fn output_spec(
    x: &TensorSpec,
    _gamma: &OptionalTensorMetadata,
    _beta: &OptionalTensorMetadata,
    spec: &NormSpec,
) -> NormOutputMetadata {
    let [rows, _] = matrix(&x.shape, spec.axes);
    let statistics = Shape::new([spec.norm.statistics(), rows]);
    NormOutputMetadata {
        y: y_spec(x, spec),
        statistics: TensorSpec::new(statistics, accumulator(x.dtype).into()),
    }
}

#[cfg(feature = "fusion")]
fn add_norm_spec(
    x: &TensorSpec,
    _residual: &TensorSpec,
    _gamma: &OptionalTensorMetadata,
    _beta: &OptionalTensorMetadata,
    spec: &NormSpec,
) -> AddNormOutputMetadata {
    AddNormOutputMetadata { y: y_spec(x, spec), sum: x.clone() }
}

#[cfg(feature = "fusion")]
fn add_norm_forward_spec(
    x: &TensorSpec,
    _residual: &TensorSpec,
    gamma: &OptionalTensorMetadata,
    beta: &OptionalTensorMetadata,
    spec: &NormSpec,
) -> AddNormForwardMetadata {
    let NormOutputMetadata { y, statistics } = output_spec(x, gamma, beta, spec);
    AddNormForwardMetadata { y, sum: x.clone(), statistics }
}

#[cfg(feature = "fusion")]
fn gradients_spec(
    x: &TensorSpec,
    gamma: &OptionalTensorMetadata,
    _statistics: &TensorSpec,
    _upstream: &NormUpstreamMetadata,
    spec: &NormSpec,
    wanted: &NormWanted,
) -> NormGradientsMetadata {
    use OptionalTensorMetadata::{None, Some};
    let beta = spec.parameter(&x.shape);
    NormGradientsMetadata {
        x: if wanted.x { Some(x.clone()) } else { None },
        gamma: if wanted.gamma { gamma.clone() } else { None },
        beta: wanted.beta.map_or(None, |dtype| Some(TensorSpec::new(beta, dtype))),
    }
}
