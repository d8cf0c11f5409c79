use super::{ResidualStream, SelfAttention, SelfAttentionConfig};
use crate::nn::{RmsNorm, RmsNormConfig};
use burn::{
    config::Config,
    module::Module,
    nn::{Linear, LinearConfig, RotaryEncoding, SwiGlu, SwiGluConfig},
    tensor::{Bool, Device, Tensor},
};

/// Configuration of [`LlamaBlock`].
#[derive(Config, Debug)]
pub struct LlamaBlockConfig {
    /// The number of features.
    pub d_model: usize,
    /// The number of heads.
    pub n_heads: usize,
    /// The features between the layers of the feed-forward network.
    pub d_ff: usize,
    /// The number of heads of keys and values. Default: as many as of queries
    #[config(default = "None")]
    pub n_kv_heads: Option<usize>,
    /// Added to the mean squares before their roots are taken. Default: 1e-5
    #[config(default = 1e-5)]
    pub epsilon: f64,
}

impl LlamaBlockConfig {
    /// A new block.
    ///
    /// # Panics
    ///
    /// As [`SelfAttentionConfig::init`] and [`RmsNormConfig::init`].
    pub fn init(&self, device: &Device) -> LlamaBlock {
        let Self { d_model, n_heads, d_ff, n_kv_heads, epsilon } = *self;
        let norm = || RmsNormConfig::new(d_model).with_epsilon(epsilon).init(device);
        LlamaBlock {
            attention_norm: norm(),
            attention: SelfAttentionConfig::new(d_model, n_heads)
                .with_n_kv_heads(n_kv_heads)
                .with_causal(true)
                .with_bias(false)
                .with_dropout(0.0)
                .init(device),
            feed_forward_norm: norm(),
            gate: SwiGluConfig::new(d_model, d_ff).init(device),
            down: LinearConfig::new(d_ff, d_model).with_bias(false).init(device),
        }
    }
}

/// A transformer block as Llama has it (Touvron et al., *LLaMA*, 2023): causal attention with rotary encoding, and a
/// feed-forward network with a SwiGLU gate, each behind an RMSNorm and beside a residual, without biases.
#[derive(Module, Debug)]
pub struct LlamaBlock {
    /// Ahead of attention.
    pub attention_norm: RmsNorm,
    /// Attention.
    pub attention: SelfAttention,
    /// Ahead of the feed-forward network.
    pub feed_forward_norm: RmsNorm,
    /// The first layer of the feed-forward network, gated.
    pub gate: SwiGlu,
    /// Its second.
    pub down: Linear,
}

impl LlamaBlock {
    /// The stream after this block. `rotary`, which all blocks share, and `mask_pad` are those of
    /// [`SelfAttention::forward`].
    ///
    /// # Panics
    ///
    /// As [`SelfAttention::forward`].
    pub fn forward(
        &self,
        x: impl Into<ResidualStream>,
        rotary: &RotaryEncoding,
        mask_pad: Option<Tensor<2, Bool>>,
    ) -> ResidualStream {
        let (x, stream) = x.into().normalise(&self.attention_norm);
        let stream = stream.plus(self.attention.forward(x, Some(rotary), mask_pad));
        let (x, stream) = stream.normalise(&self.feed_forward_norm);
        stream.plus(self.down.forward(self.gate.forward(x)))
    }
}
