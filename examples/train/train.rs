use crate::{
    bits,
    checkpoint::{Checkpoint, Done, Training},
    clip::clip_by_global_norm,
    layers::Layers,
    model::{Dims, Transformer},
    progress::Progress,
    text::Corpus,
};
use burn::{
    lr_scheduler::{
        LrSchedulerConfig, cosine::CosineAnnealingLrSchedulerConfig,
        linear::LinearLrSchedulerConfig, module_lr_scheduler::ModuleLrScheduler,
        sequential::SequentialLrSchedulerConfig,
    },
    module::Module,
    optim::{AdamWConfig, GradientsParams},
    store::ModuleRecord,
    tensor::{Device, Tensor, TensorData},
};
use std::{path::Path, time::Instant};

/// Batches that a validation takes.
const VALIDATION: usize = 8;

/// Steps that are queued before their losses are waited for.
const WINDOW: usize = 10;

/// What is trained, and how.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    pub corpus: &'a Corpus,
    pub device: &'a Device,
    pub dims: Dims,
    pub steps: usize,
    /// Seed of the initial weights and of the batches.
    pub seed: u64,
    /// The most that the norm of all gradients may be.
    pub clip: Option<f64>,
    /// Steps from one validation to the next.
    pub validate_every: usize,
    /// Where to keep the training, and steps from one time to the next.
    pub checkpoint: Option<(&'a Path, usize)>,
}

/// What a training left behind, step by step.
pub struct Run {
    /// The crate that the norm, softmax and loss are from.
    pub package: &'static str,
    pub losses: Vec<f32>,
    /// Steps, and the mean loss after them of what is held out.
    pub validation: Vec<(usize, f32)>,
    /// Of the steps that were not resumed from.
    pub seconds: Vec<f64>,
    /// Bytes that the device had set aside in the end, which is the most it needed.
    pub memory: Option<u64>,
    /// The parameters that it ended with, by name.
    pub parameters: Vec<(String, TensorData)>,
}

/// Trains a transformer with the layers `L` from the given weights, or from where a checkpoint left it.
pub fn train<L: Layers>(
    weights: ModuleRecord,
    plan: Plan,
) -> Result<(Run, Transformer<L>), String> {
    let Plan { corpus, device, dims, .. } = plan;
    device.memory_cleanup();
    let mut training = Training {
        model: Transformer::<L>::new(corpus.vocabulary(), dims, device).load_record(weights),
        optimizer: AdamWConfig::new().init(),
        rates: rates(dims.rate, plan.steps)?,
        done: Done::default(),
    };
    let folder = plan.checkpoint.map(|(path, _)| Checkpoint::of(path, L::PACKAGE)).transpose()?;
    if let Some(folder) = &folder {
        training = folder.load(training)?;
    }
    let progress = Progress::new(L::PACKAGE, plan.steps, training.done.steps);
    let (mut seconds, mut pending) = (Vec::new(), Vec::new());
    let mut start = Instant::now();
    for step in training.done.steps..plan.steps {
        let loss;
        (training, loss) = advance(training, plan, step);
        pending.push(loss);
        let done = training.done.steps;
        let is_last = done == plan.steps;
        let validates = is_last || done.is_multiple_of(plan.validate_every);
        let saves = plan.checkpoint.filter(|(_, every)| is_last || done.is_multiple_of(*every));
        if pending.len() < WINDOW && !validates && saves.is_none() {
            continue;
        }
        let losses: Vec<f32> = pending.drain(..).map(|loss| loss.into_scalar()).collect();
        let each = start.elapsed().as_secs_f64() / losses.len() as f64;
        for loss in losses {
            progress.step(loss, corpus.tokens() as f64 / each);
            training.done.losses.push(loss);
            seconds.push(each);
        }
        if validates {
            let loss = validate(&training.model, plan);
            progress.say(&format!("validation loss {loss:.4}"));
            training.done.validation.push((done, loss));
        }
        if let Some(folder) = folder.as_ref().filter(|_| saves.is_some()) {
            folder.save(&training)?;
        }
        start = Instant::now();
    }
    let Training { model, done, .. } = training;
    let run = Run {
        package: L::PACKAGE,
        losses: done.losses,
        validation: done.validation,
        seconds,
        memory: device.memory_pool_usage().map(|usage| usage.bytes_reserved),
        parameters: bits::parameters(&model),
    };
    Ok((run, model))
}

/// One step, and its loss.
fn advance<L: Layers>(
    training: Training<Transformer<L>>,
    plan: Plan,
    step: usize,
) -> (Training<Transformer<L>>, Tensor<1>) {
    let Training { model, mut optimizer, mut rates, mut done } = training;
    let loss = model.loss(plan.corpus.batch(plan.seed, step, plan.device));
    let gradients = GradientsParams::from_grads(loss.backward(), &model);
    let gradients = match plan.clip {
        Some(limit) => clip_by_global_norm(gradients, &model, limit),
        None => gradients,
    };
    let model = optimizer.step(rates.step(), model, gradients);
    done.steps = step + 1;
    (Training { model, optimizer, rates, done }, loss.inner())
}

/// The mean loss of what is held out.
fn validate<L: Layers>(model: &Transformer<L>, plan: Plan) -> f32 {
    let model = model.valid();
    let device = plan.device.clone().inner();
    let losses = plan.corpus.validation(VALIDATION, &device).map(|batch| model.loss(batch));
    let losses: Vec<f32> = losses.map(|loss| loss.into_scalar::<f32>()).collect();
    losses.iter().sum::<f32>() / losses.len() as f32
}

/// Up to `rate` in a twentieth of the steps, and down to a tenth of it along a cosine.
fn rates(rate: f64, steps: usize) -> Result<ModuleLrScheduler, String> {
    let warmup = (steps / 20).max(1);
    let rest = steps.saturating_sub(warmup).max(1);
    let rise = LinearLrSchedulerConfig::new(rate / warmup as f64, rate, warmup);
    let fall = CosineAnnealingLrSchedulerConfig::new(rate, rest).with_min_lr(rate / 10.0);
    let parts = vec![LrSchedulerConfig::Linear(rise), LrSchedulerConfig::Cosine(fall)];
    SequentialLrSchedulerConfig::new(parts, vec![warmup]).init()
}
