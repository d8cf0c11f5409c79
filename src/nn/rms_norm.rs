use crate::{add_rms_norm, rms_norm};
use burn::{
    config::Config,
    module::{Content, DisplaySettings, Initializer, Module, ModuleDisplay, Param},
    tensor::{Device, Tensor},
};

/// Configuration of [`RmsNorm`], the same as that of `burn::nn::RmsNorm`.
#[derive(Config, Debug)]
pub struct RmsNormConfig {
    /// The number of features: the size of the last dimension.
    pub d_model: usize,
    /// Added to the mean square before the root is taken. Default: 1e-5
    #[config(default = 1e-5)]
    pub epsilon: f64,
}

impl RmsNormConfig {
    /// A new module whose `gamma` is all ones.
    ///
    /// # Panics
    ///
    /// If `epsilon` is not positive.
    pub fn init(&self, device: &Device) -> RmsNorm {
        assert!(self.epsilon > 0.0, "epsilon must be positive.");
        RmsNorm { gamma: Initializer::Ones.init([self.d_model], device), epsilon: self.epsilon }
    }
}

/// Root mean square normalization along the last dimension, by [`rms_norm`](fn@crate::rms_norm).
///
/// It takes the place of `burn::nn::RmsNorm`: records and weight files of one load into the other.
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct RmsNorm {
    /// The learned scale, shape `[d_model]`.
    pub gamma: Param<Tensor<1>>,
    /// Added to the mean square before the root is taken.
    pub epsilon: f64,
}

impl RmsNorm {
    /// Normalises the last dimension of `x`.
    ///
    /// # Shapes
    ///
    /// - input: `[..., any, d_model]`
    /// - output: `[..., any, d_model]`
    ///
    /// # Panics
    ///
    /// If the last dimension of `x` is not `d_model`, `x` is on another device than `gamma`, or
    /// `epsilon` is negative, infinite or NaN.
    #[track_caller]
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        rms_norm(x, Some(self.gamma.val()), self.epsilon)
    }

    /// Normalises the last dimension of `x + residual`, and gives that sum as well, by
    /// [`add_rms_norm`](fn@crate::add_rms_norm): `(normalized, sum)`.
    ///
    /// # Shapes
    ///
    /// - inputs, outputs: `[..., any, d_model]`
    ///
    /// # Panics
    ///
    /// As [`forward`](Self::forward), and if `residual` has another shape, type or device than `x`.
    #[track_caller]
    pub fn forward_add<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
    ) -> (Tensor<D>, Tensor<D>) {
        add_rms_norm(x, residual, Some(self.gamma.val()), self.epsilon)
    }
}

impl ModuleDisplay for RmsNorm {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let [d_model] = self.gamma.shape().dims();
        content.add("d_model", &d_model).add("epsilon", &self.epsilon).optional()
    }
}
