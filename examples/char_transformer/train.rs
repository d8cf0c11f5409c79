use crate::{
    bits,
    model::{CONTEXT, Transformer},
    norm::Norm,
    progress::Progress,
    text::{BATCH, Corpus},
};
use burn::{
    lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig,
    module::Module,
    optim::{AdamWConfig, GradientsParams},
    store::ModuleRecord,
    tensor::{Device, TensorData},
};
use std::time::Instant;

#[derive(Clone, Copy)]
pub struct Schedule {
    pub steps: usize,
    /// Seed of the initial weights and of the batches.
    pub seed: u64,
}

/// What a training left behind, step by step.
pub struct Run {
    /// The crate that the norm and softmax are from.
    pub package: &'static str,
    pub losses: Vec<f32>,
    pub seconds: Vec<f64>,
    /// The parameters that it ended with, by name.
    pub parameters: Vec<(String, TensorData)>,
}

/// Trains a transformer with the norm `N` from the given weights.
pub fn train<N: Norm>(
    weights: ModuleRecord,
    corpus: &Corpus,
    device: &Device,
    schedule: Schedule,
) -> Run {
    let mut model = Transformer::<N>::new(corpus.vocabulary(), device).load_record(weights);
    let mut optimizer = AdamWConfig::new().init();
    let mut rates = CosineAnnealingLrSchedulerConfig::new(3e-3, schedule.steps)
        .init()
        .expect("the rate is in range");
    let (mut losses, mut seconds) = (Vec::new(), Vec::new());
    let progress = Progress::new(N::PACKAGE, schedule.steps);
    for batch in corpus.batches(schedule.seed, device).take(schedule.steps) {
        let start = Instant::now();
        let loss = model.loss(batch);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(rates.step(), model, gradients);
        // Waits for all that the step has queued.
        let loss = loss.into_scalar::<f32>();
        let elapsed = start.elapsed().as_secs_f64();
        progress.step(loss, (BATCH * CONTEXT) as f64 / elapsed);
        losses.push(loss);
        seconds.push(elapsed);
    }
    Run { package: N::PACKAGE, losses, seconds, parameters: bits::parameters(&model) }
}
