use burn::{
    module::{Module, ModuleDisplay},
    tensor::{Bool, Device, Int, Tensor},
};
use clap::ValueEnum;

/// The norm of the transformer's layers.
#[derive(Clone, Copy, ValueEnum)]
pub enum Norm {
    /// RMSNorm, as in Llama
    Rms,
    /// LayerNorm, as in GPT-2
    Layer,
}

impl Norm {
    pub fn name(self) -> &'static str {
        match self {
            Self::Rms => "RMSNorm",
            Self::Layer => "LayerNorm",
        }
    }
}

/// A norm, with the softmax and the loss of the crate that it is from, so that one transformer serves for
/// both crates. A model that need not compare them has no use for this trait.
pub trait Layers: Module + ModuleDisplay {
    const PACKAGE: &str;

    fn new(d_model: usize, device: &Device) -> Self;

    /// Normalises the last dimension.
    fn forward(&self, x: Tensor<3>) -> Tensor<3>;

    /// Normalises the last dimension of `x + residual`, and gives that sum as well.
    fn forward_add(&self, x: Tensor<3>, residual: Tensor<3>) -> (Tensor<3>, Tensor<3>);

    /// The weights of attention in which no place sees those behind it.
    fn causal_softmax(scores: Tensor<4>, scale: f64) -> Tensor<4>;

    /// The mean cross-entropy.
    fn loss(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1>;
}

macro_rules! fused {
    ($norm:ident, $config:ident) => {
        impl Layers for burn_fused::nn::$norm {
            const PACKAGE: &str = "burn_fused";

            fn new(d_model: usize, device: &Device) -> Self {
                burn_fused::nn::$config::new(d_model).init(device)
            }

            fn forward(&self, x: Tensor<3>) -> Tensor<3> {
                self.forward(x)
            }

            fn forward_add(&self, x: Tensor<3>, residual: Tensor<3>) -> (Tensor<3>, Tensor<3>) {
                self.forward_add(x, residual)
            }

            fn causal_softmax(scores: Tensor<4>, scale: f64) -> Tensor<4> {
                let options = burn_fused::AttentionSoftmaxOptions { scale, causal: Some(0) };
                burn_fused::attention_softmax(scores, None, None, options)
            }

            fn loss(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
                let config = burn_fused::nn::loss::CrossEntropyLossConfig::new();
                config.init(&logits.device()).forward(logits, targets)
            }
        }
    };
}

macro_rules! burns {
    ($norm:ident, $config:ident) => {
        impl Layers for burn::nn::$norm {
            const PACKAGE: &str = "burn";

            fn new(d_model: usize, device: &Device) -> Self {
                burn::nn::$config::new(d_model).init(device)
            }

            fn forward(&self, x: Tensor<3>) -> Tensor<3> {
                self.forward(x)
            }

            fn forward_add(&self, x: Tensor<3>, residual: Tensor<3>) -> (Tensor<3>, Tensor<3>) {
                let sum = x + residual;
                (self.forward(sum.clone()), sum)
            }

            fn causal_softmax(scores: Tensor<4>, scale: f64) -> Tensor<4> {
                let [_, _, queries, keys] = scores.dims();
                let hidden = Tensor::<2, Bool>::tril_mask([queries, keys], 0, &scores.device());
                let scores = (scores * scale).mask_fill(hidden.unsqueeze(), f32::NEG_INFINITY);
                burn::tensor::activation::softmax(scores, 3)
            }

            fn loss(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
                let config = burn::nn::loss::CrossEntropyLossConfig::new();
                config.init(&logits.device()).forward(logits, targets)
            }
        }
    };
}

fused!(RmsNorm, RmsNormConfig);
fused!(LayerNorm, LayerNormConfig);
burns!(RmsNorm, RmsNormConfig);
burns!(LayerNorm, LayerNormConfig);
