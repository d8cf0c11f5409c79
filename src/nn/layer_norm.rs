use crate::{add_layer_norm, layer_norm};
use burn::{
    config::Config,
    module::{Content, DisplaySettings, Initializer, Module, ModuleDisplay, Param},
    tensor::{Device, Tensor},
};

/// Configuration of [`LayerNorm`], the same as that of `burn::nn::LayerNorm`.
#[derive(Config, Debug)]
pub struct LayerNormConfig {
    /// The number of features: the size of the last dimension.
    pub d_model: usize,
    /// Added to the variance before the root is taken. Default: 1e-5
    #[config(default = 1e-5)]
    pub epsilon: f64,
    /// Whether there is a learned shift, `beta`. Default: true
    #[config(default = true)]
    pub bias: bool,
}

impl LayerNormConfig {
    /// A new module whose `gamma` is all ones and whose `beta`, if any, is all zeros.
    pub fn init(&self, device: &Device) -> LayerNorm {
        LayerNorm {
            gamma: Initializer::Ones.init([self.d_model], device),
            beta: self.bias.then(|| Initializer::Zeros.init([self.d_model], device)),
            epsilon: self.epsilon,
        }
    }
}

/// Layer normalization along the last dimension, by [`layer_norm`](fn@crate::layer_norm).
///
/// It takes the place of `burn::nn::LayerNorm`: records and weight files of one load into the other.
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct LayerNorm {
    /// The learned scale, shape `[d_model]`.
    pub gamma: Param<Tensor<1>>,
    /// The learned shift, shape `[d_model]`, if there is one.
    pub beta: Option<Param<Tensor<1>>>,
    /// Added to the variance before the root is taken.
    pub epsilon: f64,
}

impl LayerNorm {
    /// Normalises the last dimension of `x`.
    ///
    /// # Shapes
    ///
    /// - input: `[..., any, d_model]`
    /// - output: `[..., any, d_model]`
    ///
    /// # Panics
    ///
    /// If the last dimension of `x` is not `d_model`, `x` is on another device than the parameters,
    /// or `epsilon` is negative, infinite or NaN.
    #[track_caller]
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        layer_norm(x, Some(self.gamma.val()), self.beta.as_ref().map(Param::val), self.epsilon)
    }

    /// Normalises the last dimension of `x + residual`, and gives that sum as well, by
    /// [`add_layer_norm`](fn@crate::add_layer_norm): `(normalized, sum)`.
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
        let beta = self.beta.as_ref().map(Param::val);
        add_layer_norm(x, residual, Some(self.gamma.val()), beta, self.epsilon)
    }
}

impl ModuleDisplay for LayerNorm {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let [d_model] = self.gamma.shape().dims();
        content
            .add("d_model", &d_model)
            .add("epsilon", &self.epsilon)
            .add("bias", &self.beta.is_some())
            .optional()
    }
}
