use super::{ResidualStream, SelfAttention, SelfAttentionConfig};
use crate::nn::{LayerNorm, LayerNormConfig};
use burn::{
    config::Config,
    module::Module,
    nn::{
        Dropout, DropoutConfig,
        transformer::{PositionWiseFeedForward, PositionWiseFeedForwardConfig},
    },
    tensor::{Bool, Device, Tensor},
};

/// Configuration of [`PreNormBlock`].
#[derive(Config, Debug)]
pub struct PreNormBlockConfig {
    /// The number of features.
    pub d_model: usize,
    /// The number of heads.
    pub n_heads: usize,
    /// The features between the layers of the feed-forward network.
    pub d_ff: usize,
    /// Whether no place sees those behind it. Default: false
    #[config(default = false)]
    pub causal: bool,
    /// The part that is left out in training, of attention's weights, within the feed-forward network and of
    /// what both give. Default: 0.1
    #[config(default = 0.1)]
    pub dropout: f64,
    /// Added to the variances before their roots are taken. Default: 1e-5
    #[config(default = 1e-5)]
    pub epsilon: f64,
}

impl PreNormBlockConfig {
    /// A new block.
    ///
    /// # Panics
    ///
    /// As [`SelfAttentionConfig::init`].
    pub fn init(&self, device: &Device) -> PreNormBlock {
        let norm = || LayerNormConfig::new(self.d_model).with_epsilon(self.epsilon).init(device);
        PreNormBlock {
            attention_norm: norm(),
            attention: SelfAttentionConfig::new(self.d_model, self.n_heads)
                .with_causal(self.causal)
                .with_dropout(self.dropout)
                .init(device),
            feed_forward_norm: norm(),
            feed_forward: PositionWiseFeedForwardConfig::new(self.d_model, self.d_ff)
                .with_dropout(self.dropout)
                .init(device),
            dropout: DropoutConfig::new(self.dropout).init(),
        }
    }
}

/// A transformer block that normalises what goes into attention and feed-forward network (Radford et al.,
/// *Language Models are Unsupervised Multitask Learners*, 2019): `h = x + attention(norm(x))`,
/// `y = h + feed_forward(norm(h))`.
#[derive(Module, Debug)]
pub struct PreNormBlock {
    /// Ahead of attention.
    pub attention_norm: LayerNorm,
    /// Attention.
    pub attention: SelfAttention,
    /// Ahead of the feed-forward network.
    pub feed_forward_norm: LayerNorm,
    /// The feed-forward network.
    pub feed_forward: PositionWiseFeedForward,
    /// Of what both give.
    pub dropout: Dropout,
}

impl PreNormBlock {
    /// The stream after this block. `mask_pad` is that of [`SelfAttention::forward`].
    ///
    /// # Panics
    ///
    /// As [`SelfAttention::forward`].
    pub fn forward(
        &self,
        x: impl Into<ResidualStream>,
        mask_pad: Option<Tensor<2, Bool>>,
    ) -> ResidualStream {
        let (x, stream) = x.into().normalise(&self.attention_norm);
        let output = self.attention.forward(x, None, mask_pad);
        let stream = stream.plus(self.dropout.forward(output));
        let (x, stream) = stream.normalise(&self.feed_forward_norm);
        let output = self.feed_forward.forward(x);
        stream.plus(self.dropout.forward(output))
    }
}
