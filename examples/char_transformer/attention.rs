use burn::{
    module::Module,
    nn::{Linear, LinearConfig},
    tensor::{Bool, Device, Tensor},
};

/// Self-attention of several heads, as `burn::nn::attention::MultiHeadAttention` computes it; that
/// one calls Burn's softmax, this one the softmax that it is given.
#[derive(Module, Debug)]
pub struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    heads: usize,
}

impl Attention {
    pub fn new(d_model: usize, heads: usize, device: &Device) -> Self {
        let linear = || LinearConfig::new(d_model, d_model).init(device);
        Self { query: linear(), key: linear(), value: linear(), output: linear(), heads }
    }

    /// `x` is `[batch, length, d_model]`; no place attends to those where `mask`, `[length, length]`,
    /// is true. `softmax` is along the last dimension.
    pub fn forward(
        &self,
        x: Tensor<3>,
        mask: Tensor<2, Bool>,
        softmax: impl Fn(Tensor<4>) -> Tensor<4>,
    ) -> Tensor<3> {
        let [batch, length, d_model] = x.dims();
        let d_head = d_model / self.heads;
        let split = |linear: &Linear| {
            linear.forward(x.clone()).reshape([batch, length, self.heads, d_head]).swap_dims(1, 2)
        };
        let [query, key, value] = [&self.query, &self.key, &self.value].map(split);
        let scores = query.matmul(key.transpose()) / (d_head as f64).sqrt();
        let weights = softmax(scores.mask_fill(mask.unsqueeze(), f32::NEG_INFINITY));
        let context = weights.matmul(value).swap_dims(1, 2).reshape([batch, length, d_model]);
        self.output.forward(context)
    }
}
