use crate::{layers::Layers, text::Batch};
use burn::{
    module::Module,
    nn::{
        Embedding, EmbeddingConfig, Linear, LinearConfig, PositionalEncoding,
        PositionalEncodingConfig,
        transformer::{PositionWiseFeedForward, PositionWiseFeedForwardConfig},
    },
    tensor::{Device, Int, Tensor},
};
use clap::ValueEnum;

/// How large the model and its batches are.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Size {
    /// 0.1 million parameters: a minute on two cores
    Tiny,
    /// 10 million parameters: minutes on a GPU
    Small,
    /// 100 million parameters
    Large,
}

#[derive(Clone, Copy)]
pub struct Dims {
    /// Size of the vectors that are normalised.
    pub width: usize,
    pub depth: usize,
    pub heads: usize,
    /// Characters that the model sees at once.
    pub context: usize,
    /// Sequences in a batch.
    pub batch: usize,
    /// The highest learning rate.
    pub rate: f64,
}

impl Size {
    pub fn dims(self) -> Dims {
        let dims = |width, depth, heads, context, batch, rate| Dims {
            width,
            depth,
            heads,
            context,
            batch,
            rate,
        };
        match self {
            Self::Tiny => dims(64, 2, 4, 64, 8, 3e-3),
            Self::Small => dims(384, 6, 6, 256, 64, 1e-3),
            Self::Large => dims(1024, 8, 16, 1024, 8, 3e-4),
        }
    }
}

/// A transformer that predicts the next character at each place of a text.
#[derive(Module, Debug)]
pub struct Transformer<L: Module + Layers> {
    characters: Embedding,
    places: PositionalEncoding,
    blocks: Vec<Block<L>>,
    norm: L,
    head: Linear,
}

/// Attention and a feed-forward network, each on normalised input, each added to what it read.
#[derive(Module, Debug)]
struct Block<L: Module + Layers> {
    attention_norm: L,
    attention: Attention,
    feed_forward_norm: L,
    feed_forward: PositionWiseFeedForward,
}

/// Self-attention of several heads.
#[derive(Module, Debug)]
struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    heads: usize,
}

/// What blocks add to, and what the last one gave, which the next norm adds.
type Stream = (Tensor<3>, Option<Tensor<3>>);

impl<L: Layers> Transformer<L> {
    pub fn new(vocabulary: usize, dims: Dims, device: &Device) -> Self {
        // Matrices that divide evenly have faster kernels; the model learns to leave the rest out.
        let vocabulary = vocabulary.next_multiple_of(64);
        Self {
            characters: EmbeddingConfig::new(vocabulary, dims.width).init(device),
            places: PositionalEncodingConfig::new(dims.width)
                .with_max_sequence_size(dims.context)
                .init(device),
            blocks: (0..dims.depth).map(|_| Block::new(dims, device)).collect(),
            norm: L::new(dims.width, device),
            head: LinearConfig::new(dims.width, vocabulary).with_bias(false).init(device),
        }
    }

    /// The mean cross-entropy of the batch, in nats a character.
    pub fn loss(&self, batch: Batch) -> Tensor<1> {
        let logits = self.logits(batch.inputs).flatten::<2>(0, 1);
        L::loss(logits, batch.targets.flatten(0, 1))
    }

    /// Those of the next character at each place: `[batch, length, vocabulary]`.
    pub fn logits(&self, inputs: Tensor<2, Int>) -> Tensor<3> {
        let x = self.places.forward(self.characters.forward(inputs));
        let stream = self.blocks.iter().fold((x, None), |stream, block| block.forward(stream));
        let (x, _) = normalise(&self.norm, stream);
        self.head.forward(x)
    }
}

/// The stream normalised, and the stream.
fn normalise<L: Layers>(norm: &L, (sum, pending): Stream) -> (Tensor<3>, Tensor<3>) {
    match pending {
        Some(pending) => norm.forward_add(pending, sum),
        None => (norm.forward(sum.clone()), sum),
    }
}

impl<L: Layers> Block<L> {
    fn new(dims: Dims, device: &Device) -> Self {
        Self {
            attention_norm: L::new(dims.width, device),
            attention: Attention::new(dims, device),
            feed_forward_norm: L::new(dims.width, device),
            feed_forward: PositionWiseFeedForwardConfig::new(dims.width, 4 * dims.width)
                .with_dropout(0.0)
                .init(device),
        }
    }

    fn forward(&self, stream: Stream) -> Stream {
        let (x, sum) = normalise(&self.attention_norm, stream);
        let stream = (sum, Some(self.attention.forward::<L>(x)));
        let (x, sum) = normalise(&self.feed_forward_norm, stream);
        (sum, Some(self.feed_forward.forward(x)))
    }
}

impl Attention {
    fn new(dims: Dims, device: &Device) -> Self {
        let linear = || LinearConfig::new(dims.width, dims.width).init(device);
        Self {
            query: linear(),
            key: linear(),
            value: linear(),
            output: linear(),
            heads: dims.heads,
        }
    }

    fn forward<L: Layers>(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, length, d_model] = x.dims();
        let d_head = d_model / self.heads;
        let split = |linear: &Linear| {
            linear.forward(x.clone()).reshape([batch, length, self.heads, d_head]).swap_dims(1, 2)
        };
        let [query, key, value] = [&self.query, &self.key, &self.value].map(split);
        let weights = L::causal_softmax(query.matmul(key.transpose()), (d_head as f64).powf(-0.5));
        let context = weights.matmul(value).swap_dims(1, 2).reshape([batch, length, d_model]);
        self.output.forward(context)
    }
}
