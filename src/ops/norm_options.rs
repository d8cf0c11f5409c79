use super::{Check, Norm, NormSpec};
use crate::FusedError;
use burn::tensor::{FloatDType, Tensor};

/// How a norm is taken. Where a function asks for them, an `f64` stands for its epsilon, with the rest as
/// usual.
///
/// # Example
///
/// RMSNorm as Gemma has it, whose gamma starts at zeros:
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_fused::{NormOptions, rms_norm};
///
/// let device = Device::default();
/// let x = Tensor::<2>::from_floats([[3., 4.], [0., 1.]], &device);
/// let gamma = Tensor::<1>::zeros([2], &device);
/// let options = NormOptions { zero_centered_gamma: true, ..NormOptions::default() };
/// let y = rms_norm(x.clone(), Some(gamma), options);
/// let same = rms_norm(x, None::<Tensor<1>>, 1e-5);
/// assert_eq!(y.into_data(), same.into_data());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormOptions {
    /// Added to the variance, or to the mean square, before the root is taken. Default: 1e-5.
    pub epsilon: f64,
    /// How many trailing dimensions are normalised together. Default: all those of gamma and beta.
    ///
    /// With fewer, gamma and beta have dimensions of their own besides: on queries of shape
    /// `[batch, seq, heads, dim]`, a gamma of `[heads, dim]` and 1 here normalise each head by itself.
    pub axes: Option<usize>,
    /// Whether rows are multiplied by `1 + gamma` rather than by `gamma`. Default: no.
    pub zero_centered_gamma: bool,
    /// The type of the output, to which each value is rounded once. Default: that of the input.
    ///
    /// Sums and arithmetic are still those that follow from the input's type. So a residual stream in f32 is normalised for products in bf16 without a cast.
    pub dtype: Option<FloatDType>,
}

impl Default for NormOptions {
    fn default() -> Self {
        1e-5.into()
    }
}

impl From<f64> for NormOptions {
    fn from(epsilon: f64) -> Self {
        Self { epsilon, axes: None, zero_centered_gamma: false, dtype: None }
    }
}

impl NormOptions {
    /// What they are for the input under `check` and parameters of rank `K`, which are checked.
    pub(super) fn spec<const D: usize, const K: usize>(
        self,
        norm: Norm,
        check: &Check<'_, D>,
        parameters: [(&'static str, Option<&Tensor<K>>); 2],
    ) -> Result<NormSpec, FusedError> {
        check.parameters(parameters, self.axes)?;
        check.epsilon(self.epsilon)?;
        if let Some(dtype) = self.dtype {
            check.output("dtype", dtype.into())?;
        }
        Ok(NormSpec {
            norm,
            axes: self.axes.unwrap_or(K),
            parameter_axes: K,
            epsilon: self.epsilon,
            zero_centered_gamma: self.zero_centered_gamma,
            dtype: self.dtype.unwrap_or(check.dtype().into()),
        })
    }
}
