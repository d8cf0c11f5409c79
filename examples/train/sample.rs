use crate::{layers::Layers, model::Transformer, text::Corpus};
use burn::tensor::{Device, Int, Tensor, TensorData, activation::softmax};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Text as the model goes on from `prompt`, so many characters, each drawn from its probabilities.
pub fn sample<L: Layers>(
    model: &Transformer<L>,
    corpus: &Corpus,
    context: usize,
    prompt: &str,
    count: usize,
    seed: u64,
    device: &Device,
) -> String {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut ids = corpus.encode(prompt);
    if ids.is_empty() {
        ids.push(0);
    }
    for _ in 0..count {
        // Always as long as the context, so that kernels are compiled for one length: what is behind the
        // last character changes nothing ahead of it.
        let seen = &ids[ids.len().saturating_sub(context)..];
        let last = seen.len() - 1;
        let mut window = seen.to_vec();
        window.resize(context, 0);
        let inputs = Tensor::<2, Int>::from_data(TensorData::new(window, [1, context]), device);
        let logits = model.logits(inputs).slice([0..1, last..last + 1]);
        let known = logits.narrow(2, 0, corpus.vocabulary()).flatten::<1>(0, 2);
        let shares = softmax(known, 0).into_data().convert::<f32>();
        let mut rest = rng.random_range(0.0..1.0f32);
        let shares = shares.as_slice::<f32>().expect("they have been converted");
        let drawn = shares.iter().position(|share| {
            rest -= share;
            rest < 0.0
        });
        ids.push(drawn.unwrap_or(shares.len() - 1) as i32);
    }
    corpus.decode(&ids)
}
