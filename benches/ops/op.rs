use burn_fused::AttentionSoftmaxOptions;
use clap::ValueEnum;

/// The ops that can be timed.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Op {
    RmsNorm,
    LayerNorm,
    /// RMSNorm of a sum, and the sum
    AddRmsNorm,
    /// LayerNorm of a sum, and the sum
    AddLayerNorm,
    Softmax,
    LogSoftmax,
    /// Scaled causal softmax of attention scores, [rows / columns, columns, columns]
    Attention,
    /// Cross-entropy of logits and a class each
    CrossEntropy,
    /// Softmax along dimension 1 of [rows / 3136, columns, 56, 56]
    SoftmaxDim1,
}

impl Op {
    /// As results name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::RmsNorm => "rms",
            Self::LayerNorm => "ln",
            Self::AddRmsNorm => "add_rms",
            Self::AddLayerNorm => "add_ln",
            Self::Softmax => "softmax",
            Self::LogSoftmax => "log_softmax",
            Self::Attention => "attention",
            Self::CrossEntropy => "ce",
            Self::SoftmaxDim1 => "softmax_dim1",
        }
    }

    /// The tensor's shape for `rows` sums of `columns` elements each.
    pub fn shape(self, [rows, columns]: [usize; 2]) -> [usize; 3] {
        match self {
            Self::Attention => [(rows / columns).max(1), rows.min(columns), columns],
            Self::SoftmaxDim1 => [(rows / 3136).max(1), columns, 3136],
            _ => [1, rows, columns],
        }
    }
}

/// What attention asks for: a scale, and that the last query sees all keys.
pub fn attention([_, queries, keys]: [usize; 3]) -> AttentionSoftmaxOptions {
    AttentionSoftmaxOptions { scale: 0.125, causal: Some(keys - queries) }
}
