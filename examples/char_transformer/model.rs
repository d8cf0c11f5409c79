use crate::{attention::Attention, norm::Norm, text::Batch};
use burn::{
    module::Module,
    nn::{
        Embedding, EmbeddingConfig, Linear, LinearConfig, PositionalEncoding,
        PositionalEncodingConfig,
        loss::CrossEntropyLossConfig,
        transformer::{PositionWiseFeedForward, PositionWiseFeedForwardConfig},
    },
    tensor::{Bool, Device, Int, Tensor},
};

/// Characters that the model sees at once.
pub const CONTEXT: usize = 64;
/// Size of the vectors that are normalised.
pub const D_MODEL: usize = 64;
pub const HEADS: usize = 4;
const LAYERS: usize = 2;

/// A transformer that predicts the next character at each place of a text.
#[derive(Module, Debug)]
pub struct Transformer<N: Module + Norm> {
    characters: Embedding,
    places: PositionalEncoding,
    blocks: Vec<Block<N>>,
    norm: N,
    head: Linear,
}

/// Attention and a feed-forward network, each on normalised input, each added to what it read.
#[derive(Module, Debug)]
struct Block<N: Module + Norm> {
    attention_norm: N,
    attention: Attention,
    feed_forward_norm: N,
    feed_forward: PositionWiseFeedForward,
}

impl<N: Norm> Transformer<N> {
    pub fn new(vocabulary: usize, device: &Device) -> Self {
        // Matrices that divide evenly have faster kernels; the model learns to leave the rest out.
        let vocabulary = vocabulary.next_multiple_of(64);
        Self {
            characters: EmbeddingConfig::new(vocabulary, D_MODEL).init(device),
            places: PositionalEncodingConfig::new(D_MODEL)
                .with_max_sequence_size(CONTEXT)
                .init(device),
            blocks: (0..LAYERS).map(|_| Block::new(device)).collect(),
            norm: N::new(D_MODEL, device),
            head: LinearConfig::new(D_MODEL, vocabulary).with_bias(false).init(device),
        }
    }

    /// The mean cross-entropy of the batch, in nats a character.
    pub fn loss(&self, batch: Batch) -> Tensor<1> {
        let logits = self.forward(batch.inputs).flatten::<2>(0, 1);
        CrossEntropyLossConfig::new()
            .init(&logits.device())
            .forward(logits, batch.targets.flatten(0, 1))
    }

    fn forward(&self, inputs: Tensor<2, Int>) -> Tensor<3> {
        let [_, length] = inputs.dims();
        // True above the diagonal, where the characters to come are.
        let mask = Tensor::tril_mask([length, length], 0, &inputs.device());
        let mut x = self.places.forward(self.characters.forward(inputs));
        for block in &self.blocks {
            x = block.forward(x, mask.clone());
        }
        self.head.forward(self.norm.forward(x))
    }
}

impl<N: Norm> Block<N> {
    fn new(device: &Device) -> Self {
        Self {
            attention_norm: N::new(D_MODEL, device),
            attention: Attention::new(D_MODEL, HEADS, device),
            feed_forward_norm: N::new(D_MODEL, device),
            feed_forward: PositionWiseFeedForwardConfig::new(D_MODEL, 4 * D_MODEL)
                .with_dropout(0.0)
                .init(device),
        }
    }

    fn forward(&self, x: Tensor<3>, mask: Tensor<2, Bool>) -> Tensor<3> {
        let normed = self.attention_norm.forward(x.clone());
        let x = x + self.attention.forward(normed, mask, N::softmax);
        let normed = self.feed_forward_norm.forward(x.clone());
        x + self.feed_forward.forward(normed)
    }
}
