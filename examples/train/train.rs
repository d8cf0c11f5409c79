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
use indicatif::MultiProgress;
use std::{path::Path, time::Instant};

/// Batches that a validation takes.
const VALIDATION: usize = 8;

/// Steps that are queued before their losses are waited for. Two trainings take turns of so many, so that what
/// else the machine does meets both.
const TURN: usize = 5;

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
    /// Where progress is shown.
    pub bars: &'a MultiProgress,
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
    /// Bytes that the device sets aside for it, by itself.
    pub memory: Option<u64>,
    /// The parameters that it ended with, by name.
    pub parameters: Vec<(String, TensorData)>,
}

/// A training of a transformer with the layers `L`, as far as it has come.
pub struct Trainer<'a, L: Layers> {
    plan: Plan<'a>,
    training: Training<Transformer<L>>,
    folder: Option<Checkpoint>,
    progress: Progress,
    seconds: Vec<f64>,
    memory: Option<u64>,
}

impl<'a, L: Layers> Trainer<'a, L> {
    /// From the given weights, or from where a checkpoint left it. A few steps are taken of a training that is given
    /// up: they compile and tune kernels, and show what memory one training takes while there is no other.
    pub fn new(weights: ModuleRecord, plan: Plan<'a>) -> Result<Self, String> {
        println!("{}: kernels are compiled and tuned", L::PACKAGE);
        let memory = rehearse::<L>(beginning(weights.clone(), plan)?, plan);
        let mut training = beginning(weights, plan)?;
        let folder =
            plan.checkpoint.map(|(path, _)| Checkpoint::of(path, L::PACKAGE)).transpose()?;
        if let Some(folder) = &folder {
            training = folder.load(training)?;
        }
        let progress = Progress::new(L::PACKAGE, plan.steps, training.done.steps, plan.bars);
        Ok(Self { plan, training, folder, progress, seconds: Vec::new(), memory })
    }

    pub fn plan(&self) -> Plan<'a> {
        self.plan
    }

    pub fn is_done(&self) -> bool {
        self.training.done.steps >= self.plan.steps
    }

    /// Some steps more, if there are any.
    pub fn turn(mut self) -> Result<Self, String> {
        let plan = self.plan;
        let (start, mut pending) = (Instant::now(), Vec::new());
        let (mut validates, mut saves) = (false, false);
        while pending.len() < TURN && !self.is_done() && !validates && !saves {
            let loss;
            (self.training, loss) = advance(self.training, plan);
            pending.push(loss);
            let done = self.training.done.steps;
            let is_due = |every: usize| done == plan.steps || done.is_multiple_of(every);
            validates = is_due(plan.validate_every);
            saves = plan.checkpoint.is_some_and(|(_, every)| is_due(every));
        }
        let losses: Vec<f32> = pending.into_iter().map(|loss| loss.into_scalar()).collect();
        let each = start.elapsed().as_secs_f64() / losses.len() as f64;
        for loss in losses {
            self.progress.step(loss, plan.corpus.tokens() as f64 / each);
            self.training.done.losses.push(loss);
            self.seconds.push(each);
        }
        if validates {
            let loss = validate(&self.training.model, plan);
            self.progress.say(&format!("validation loss {loss:.4}"));
            self.training.done.validation.push((self.training.done.steps, loss));
        }
        if let Some(folder) = self.folder.as_ref().filter(|_| saves) {
            folder.save(&self.training)?;
        }
        Ok(self)
    }

    /// What came of it.
    pub fn finish(self) -> (Run, Transformer<L>) {
        let Training { model, done, .. } = self.training;
        let run = Run {
            package: L::PACKAGE,
            losses: done.losses,
            validation: done.validation,
            seconds: self.seconds,
            memory: self.memory,
            parameters: bits::parameters(&model),
        };
        (run, model)
    }
}

/// A training of which nothing is done.
fn beginning<L: Layers>(
    weights: ModuleRecord,
    plan: Plan,
) -> Result<Training<Transformer<L>>, String> {
    let model = Transformer::<L>::new(plan.corpus.vocabulary(), plan.dims, plan.device);
    Ok(Training {
        model: model.load_record(weights),
        optimizer: AdamWConfig::new().init(),
        rates: rates(plan.dims.rate, plan.steps)?,
        done: Done::default(),
    })
}

/// Takes a turn's steps, and returns the bytes that the device then has set aside.
fn rehearse<L: Layers>(mut training: Training<Transformer<L>>, plan: Plan) -> Option<u64> {
    plan.device.memory_cleanup();
    for _ in 0..TURN.min(plan.steps) {
        let loss;
        (training, loss) = advance(training, plan);
        loss.into_scalar::<f32>();
    }
    plan.device.memory_pool_usage().map(|usage| usage.bytes_reserved)
}

/// One step, and its loss.
fn advance<L: Layers>(
    training: Training<Transformer<L>>,
    plan: Plan,
) -> (Training<Transformer<L>>, Tensor<1>) {
    let Training { model, mut optimizer, mut rates, mut done } = training;
    let loss = model.loss(plan.corpus.batch(plan.seed, done.steps, plan.device));
    let gradients = GradientsParams::from_grads(loss.backward(), &model);
    let gradients = match plan.clip {
        Some(limit) => clip_by_global_norm(gradients, &model, limit),
        None => gradients,
    };
    let model = optimizer.step(rates.step(), model, gradients);
    done.steps += 1;
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
