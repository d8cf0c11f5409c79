//! Blocks beside the same of Burn's own parts and operations.

use crate::{
    deliver::deliver,
    device,
    random::Random,
    values::{Values, exact},
};
use burn::{
    module::Module,
    nn::{
        self, RotaryEncoding, RotaryEncodingConfig,
        attention::{MhaInput, MultiHeadAttentionConfig},
    },
    tensor::{Bool, DType, Device, Tensor, activation},
};
use burn_fused::nn::transformer::{
    LlamaBlock, LlamaBlockConfig, PreNormBlock, PreNormBlockConfig, ResidualStream,
};

const BATCH: usize = 2;
const LENGTH: usize = 7;
const WIDTH: usize = 24;
const HEADS: usize = 4;

/// Where products need no tuning, which takes other runtimes a minute; they are not what is tested.
fn open() -> Option<Device> {
    let device = device::open()?;
    if !["flex", "cuda"].contains(&&*device::name()) {
        println!("skipped: products are tuned for long on {}", device::name());
        return None;
    }
    device.seed(Random::of("blocks").next());
    Some(device.autodiff())
}

/// The last two places of the second sequence.
fn pads(device: &Device) -> Tensor<2, Bool> {
    let places = (0..BATCH * LENGTH).map(|i| i >= BATCH * LENGTH - 2).collect::<Vec<_>>();
    Tensor::from_data(burn::tensor::TensorData::new(places, [BATCH, LENGTH]), device)
}

/// Outputs, and gradients of the input, of two ways.
fn alike(
    device: &Device,
    own: impl Fn(Tensor<3>) -> Tensor<3>,
    burns: impl Fn(Tensor<3>) -> Tensor<3>,
) {
    let mut random = Random::of("alike");
    let [x, dy] =
        [(); 2].map(|()| Values::normal(&[BATCH, LENGTH, WIDTH], DType::F32, &mut random));
    let run = |block: &dyn Fn(Tensor<3>) -> Tensor<3>| {
        let x = x.tensor::<3>(device).require_grad();
        let y = block(x.clone());
        let gradients = deliver(y.clone(), dy.tensor(device)).backward();
        [exact(&y.into_data()), exact(&x.grad(&gradients).unwrap().into_data())]
    };
    let (found, expected) = (run(&own), run(&burns));
    // On CUDA products are of tf32.
    let bound = if device::name() == "cuda" { 5e-2 } else { 1e-5 };
    for (name, (found, expected)) in ["y", "dx"].into_iter().zip(found.iter().zip(&expected)) {
        for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
            let off = (found - expected).abs();
            assert!(off <= bound * expected.abs().max(1.0), "{name} {i}: {found}, {expected}");
        }
    }
}

fn layer_norm(norm: &burn_fused::nn::LayerNorm, device: &Device) -> nn::LayerNorm {
    nn::LayerNormConfig::new(WIDTH).init(device).load_record(norm.clone().into_record())
}

fn rms_norm(norm: &burn_fused::nn::RmsNorm, device: &Device) -> nn::RmsNorm {
    nn::RmsNormConfig::new(WIDTH).init(device).load_record(norm.clone().into_record())
}

/// A pre-norm block of Burn's norms and attention.
fn burns_pre_norm(block: &PreNormBlock, x: Tensor<3>, mask: Tensor<2, Bool>) -> Tensor<3> {
    let device = x.device();
    let mut attention = MultiHeadAttentionConfig::new(WIDTH, HEADS).with_dropout(0.0).init(&device);
    attention.query = block.attention.query.clone();
    attention.key = block.attention.key.clone();
    attention.value = block.attention.value.clone();
    attention.output = block.attention.output.clone();
    let mut input =
        MhaInput::self_attn(layer_norm(&block.attention_norm, &device).forward(x.clone()));
    input = input.mask_pad(mask);
    if block.attention.causal {
        let hidden = Tensor::<2, Bool>::tril_mask([LENGTH, LENGTH], 0, &device);
        input = input.mask_attn(hidden.unsqueeze::<3>().expand([BATCH, LENGTH, LENGTH]));
    }
    let x = x + attention.forward(input).context;
    let normed = layer_norm(&block.feed_forward_norm, &device).forward(x.clone());
    x + block.feed_forward.forward(normed)
}

/// A Llama block of Burn's norms and operations.
fn burns_llama(
    block: &LlamaBlock,
    rotary: &RotaryEncoding,
    x: Tensor<3>,
    mask: Tensor<2, Bool>,
) -> Tensor<3> {
    let (device, d_head) = (x.device(), WIDTH / HEADS);
    let attention = &block.attention;
    let normed = rms_norm(&block.attention_norm, &device).forward(x.clone());
    let [query, key, value] = [
        (&attention.query, HEADS),
        (&attention.key, attention.n_kv_heads),
        (&attention.value, attention.n_kv_heads),
    ]
    .map(|(linear, heads)| {
        let all = linear.forward(normed.clone()).reshape([BATCH, LENGTH, heads, d_head]);
        let of_head = |head: usize| all.clone().narrow(2, head * heads / HEADS, 1);
        Tensor::cat((0..HEADS).map(of_head).collect(), 2).swap_dims(1, 2)
    });
    let (query, key) = (rotary.forward(query), rotary.forward(key));
    let hidden = Tensor::<2, Bool>::tril_mask([LENGTH, LENGTH], 0, &device);
    let scores = query.matmul(key.transpose()) / (d_head as f64).sqrt();
    let scores = scores
        .mask_fill(hidden.unsqueeze(), f32::NEG_INFINITY)
        .mask_fill(mask.reshape([BATCH, 1, 1, LENGTH]), f32::NEG_INFINITY);
    let context = activation::softmax(scores, 3).matmul(value).swap_dims(1, 2);
    let x = x + attention.output.forward(context.reshape([BATCH, LENGTH, WIDTH]));
    let normed = rms_norm(&block.feed_forward_norm, &device).forward(x.clone());
    x + block.down.forward(block.gate.forward(normed))
}

#[test]
fn pre_norm_blocks_are_as_of_burns_parts() {
    let Some(device) = open() else { return };
    for causal in [false, true] {
        let config = PreNormBlockConfig::new(WIDTH, HEADS, 40).with_causal(causal);
        let config = config.with_dropout(0.0);
        let blocks = [config.init(&device), config.init(&device)];
        let mask = pads(&device);
        alike(
            &device,
            |x| {
                let pass = |x, block: &PreNormBlock| block.forward(x, Some(mask.clone()));
                blocks.iter().fold(ResidualStream::from(x), pass).sum()
            },
            |x| blocks.iter().fold(x, |x, block| burns_pre_norm(block, x, mask.clone())),
        );
    }
}

#[test]
fn llama_blocks_are_as_of_burns_parts() {
    let Some(device) = open() else { return };
    let rotary = RotaryEncodingConfig::new(LENGTH, WIDTH / HEADS).init(&device);
    for n_kv_heads in [None, Some(2), Some(1)] {
        let config = LlamaBlockConfig::new(WIDTH, HEADS, 40).with_n_kv_heads(n_kv_heads);
        let blocks = [config.init(&device), config.init(&device)];
        let mask = pads(&device);
        alike(
            &device,
            |x| {
                let pass = |x, block: &LlamaBlock| block.forward(x, &rotary, Some(mask.clone()));
                blocks.iter().fold(ResidualStream::from(x), pass).sum()
            },
            |x| blocks.iter().fold(x, |x, block| burns_llama(block, &rotary, x, mask.clone())),
        );
    }
}

/// What was given last is added by the norm, or by the sum.
#[test]
fn streams_add_what_is_pending() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("streams_add_what_is_pending");
    // Powers of two, whose sums are exact.
    let mut any = || {
        let value = |_| [0.5, 1.0, -2.0, 4.0][random.below(4)];
        Values::of(&[2, 3, 8], DType::F32, value).tensor::<3>(&device)
    };
    let (x, first, second) = (any(), any(), any());
    let norm = burn_fused::nn::RmsNormConfig::new(8).init(&device);
    let sum = x.clone() + first.clone() + second.clone();
    let stream = ResidualStream::from(x).plus(first).plus(second);
    let (y, rest) = stream.clone().normalise(&norm);
    let bits = |tensor: Tensor<3>| exact(&tensor.into_data());
    assert_eq!(bits(stream.sum()), bits(sum.clone()));
    assert_eq!(bits(rest.sum()), bits(sum.clone()));
    let expected = bits(norm.forward(sum));
    for (found, expected) in bits(y).iter().zip(&expected) {
        assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0));
    }
}

#[test]
fn heads_must_divide() {
    let Some(device) = device::open() else { return };
    let message = |config: LlamaBlockConfig| {
        crate::panics::message(|| {
            config.init(&device);
        })
    };
    let config = LlamaBlockConfig::new(30, 4, 8);
    assert_eq!(message(config), Some("n_heads must divide d_model.".into()));
    let config = LlamaBlockConfig::new(32, 4, 8).with_n_kv_heads(Some(3));
    assert_eq!(message(config), Some("n_kv_heads must divide n_heads.".into()));
}
