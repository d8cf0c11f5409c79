use crate::{AttentionSoftmaxOptions, attention_softmax};
use burn::{
    config::Config,
    module::Module,
    nn::{Dropout, DropoutConfig, Linear, LinearConfig, RotaryEncoding},
    tensor::{Bool, Device, Tensor},
};

/// Configuration of [`SelfAttention`].
#[derive(Config, Debug)]
pub struct SelfAttentionConfig {
    /// The number of features.
    pub d_model: usize,
    /// The number of heads.
    pub n_heads: usize,
    /// The number of heads of keys and values, each shared by as many of the queries' (grouped-query attention;
    /// Ainslie et al., *GQA*, 2023). Default: as many as of queries
    #[config(default = "None")]
    pub n_kv_heads: Option<usize>,
    /// Whether no place sees those behind it. Default: false
    #[config(default = false)]
    pub causal: bool,
    /// Whether the projections have biases. Default: true
    #[config(default = true)]
    pub bias: bool,
    /// The part of the weights that are left out in training. Default: 0.1
    #[config(default = 0.1)]
    pub dropout: f64,
}

impl SelfAttentionConfig {
    /// A new module with projections as [`LinearConfig`] initialises them.
    ///
    /// # Panics
    ///
    /// If the heads do not divide the features, or those of keys and values the heads.
    pub fn init(&self, device: &Device) -> SelfAttention {
        let Self { d_model, n_heads, causal, .. } = *self;
        let n_kv_heads = self.n_kv_heads.unwrap_or(n_heads);
        assert!(d_model.is_multiple_of(n_heads), "n_heads must divide d_model.");
        assert!(n_heads.is_multiple_of(n_kv_heads), "n_kv_heads must divide n_heads.");
        let d_head = d_model / n_heads;
        let linear = |from, to| LinearConfig::new(from, to).with_bias(self.bias).init(device);
        SelfAttention {
            query: linear(d_model, d_model),
            key: linear(d_model, n_kv_heads * d_head),
            value: linear(d_model, n_kv_heads * d_head),
            output: linear(d_model, d_model),
            dropout: DropoutConfig::new(self.dropout).init(),
            n_heads,
            n_kv_heads,
            causal,
        }
    }
}

/// Multi-head attention of a sequence to itself, with the scale, the masks and the softmax of its scores in
/// one kernel, [`attention_softmax`](fn@crate::attention_softmax).
#[derive(Module, Debug)]
pub struct SelfAttention {
    /// Projection to queries.
    pub query: Linear,
    /// Projection to keys.
    pub key: Linear,
    /// Projection to values.
    pub value: Linear,
    /// Projection of what the heads give.
    pub output: Linear,
    /// Of the weights.
    pub dropout: Dropout,
    /// The number of heads.
    pub n_heads: usize,
    /// The number of heads of keys and values.
    pub n_kv_heads: usize,
    /// Whether no place sees those behind it.
    pub causal: bool,
}

impl SelfAttention {
    /// Attends to all places of `x` that a place sees. Places are told apart by what was added to `x`, or by
    /// `rotary`, which turns queries and keys.
    ///
    /// # Shapes
    ///
    /// - `x`, output: `[batch, length, d_model]`
    /// - `mask_pad`: `[batch, length]`, true where a place is left out, as in Burn's own attention
    /// - `rotary`: of `d_model / n_heads`
    ///
    /// # Panics
    ///
    /// If shapes or devices are others.
    pub fn forward(
        &self,
        x: Tensor<3>,
        rotary: Option<&RotaryEncoding>,
        mask_pad: Option<Tensor<2, Bool>>,
    ) -> Tensor<3> {
        let [batch, length, d_model] = x.dims();
        let d_head = d_model / self.n_heads;
        let heads = |linear: &Linear, heads: usize| {
            linear.forward(x.clone()).reshape([batch, length, heads, d_head]).swap_dims(1, 2)
        };
        let turned = |x: Tensor<4>| rotary.map_or(x.clone(), |rotary| rotary.forward(x));
        let query = turned(heads(&self.query, self.n_heads));
        let key = self.for_all_heads(turned(heads(&self.key, self.n_kv_heads)));
        let value = self.for_all_heads(heads(&self.value, self.n_kv_heads));

        let mask = mask_pad.map(|mask| mask.reshape([batch, 1, 1, length]));
        let options = AttentionSoftmaxOptions {
            scale: (d_head as f64).powf(-0.5),
            causal: self.causal.then_some(0),
        };
        let weights = attention_softmax(query.matmul(key.transpose()), mask, None, options);
        let context = self.dropout.forward(weights).matmul(value);
        self.output.forward(context.swap_dims(1, 2).reshape([batch, length, d_model]))
    }

    /// Each of the heads of keys or values as often as heads of queries share it.
    fn for_all_heads(&self, x: Tensor<4>) -> Tensor<4> {
        let (each, [batch, heads, length, d_head]) = (self.n_heads / self.n_kv_heads, x.dims());
        if each == 1 {
            return x;
        }
        x.reshape([batch, heads, 1, length, d_head])
            .expand([batch, heads, each, length, d_head])
            .reshape([batch, self.n_heads, length, d_head])
    }
}
