//! Trains a character transformer with the norms, the softmax and the loss of burn-fused, and in turns with it the
//! same model from the same weights on the same batches with those of Burn, and compares the two.

mod backend;
mod bits;
mod checkpoint;
mod clip;
mod layers;
mod model;
mod progress;
mod report;
mod sample;
mod text;
mod train;

use backend::Backend;
use burn::{
    module::Module,
    store::ModuleRecord,
    tensor::{Device, FloatDType},
};
use clap::{Parser, ValueEnum};
use indicatif::{MultiProgress, ProgressDrawTarget};
use layers::{Layers, Norm};
use model::{Size, Transformer};
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};
use text::Corpus;
use train::{Plan, Run, Trainer};

/// Trains a character transformer: with the layers of burn-fused, and with those of Burn.
#[derive(Parser)]
#[command(name = "train")]
struct Args {
    /// Text to train on, UTF-8 [default: the sources and documents of this project]
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,

    /// Where to train [default: CUDA where there is a GPU for it, else Vulkan, else the CPU]
    #[arg(long, value_enum)]
    device: Option<Backend>,

    /// The element type of parameters and activations
    #[arg(long, value_enum, default_value_t = Dtype::F32)]
    dtype: Dtype,

    /// How large the model and its batches are
    #[arg(long, value_enum, default_value_t = Size::Tiny)]
    size: Size,

    /// The norm before each layer
    #[arg(long, value_enum, default_value_t = Norm::Rms)]
    norm: Norm,

    /// Whose layers to train with
    #[arg(long, value_enum, default_value_t = Whose::Both)]
    layers: Whose,

    /// Training steps of each run
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,

    /// Seed of the initial weights and of the batches
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// The most that the norm of all gradients together may be, 0 for any
    #[arg(long, default_value_t = 1.0)]
    clip: f64,

    /// Steps from one validation to the next
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    validate_every: u32,

    /// Folder to keep the training in, and to go on from if there is one in it
    #[arg(long, value_name = "FOLDER")]
    checkpoint: Option<PathBuf>,

    /// Steps from one checkpoint to the next
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    checkpoint_every: u32,

    /// Characters to write when trained
    #[arg(long, default_value_t = 0)]
    sample: usize,

    /// What they go on from
    #[arg(long, default_value = "\n")]
    prompt: String,

    /// Train twice with burn-fused instead, and compare every loss and parameter to the bit
    #[arg(long, conflicts_with_all = ["layers", "checkpoint", "sample"])]
    check_determinism: bool,

    /// Where to write the loss curves, as SVG
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/target/train.svg"))]
    plot: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Dtype {
    F32,
    Bf16,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Whose {
    BurnFused,
    Burn,
    Both,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let run = match args.norm {
        Norm::Rms => run::<burn_fused::nn::RmsNorm, burn::nn::RmsNorm>,
        Norm::Layer => run::<burn_fused::nn::LayerNorm, burn::nn::LayerNorm>,
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run<Fused: Layers, Burns: Layers>(args: &Args) -> Result<(), String> {
    let dims = args.size.dims();
    let corpus = Corpus::load(args.text.as_deref(), dims.context, dims.batch)?;
    let backend = args.device.unwrap_or_else(Backend::find);
    let mut device = backend.open()?;
    println!("{}", backend.describe(&device));
    if let Dtype::Bf16 = args.dtype {
        device.configure(FloatDType::BF16).map_err(|error| error.to_string())?;
    }
    let device = device.autodiff();
    let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
    let plan = Plan {
        corpus: &corpus,
        device: &device,
        dims,
        steps: args.steps as usize,
        seed: args.seed,
        clip: Some(args.clip).filter(|clip| *clip > 0.0),
        validate_every: args.validate_every as usize,
        checkpoint: args.checkpoint.as_deref().map(|path| (path, args.checkpoint_every as usize)),
        bars: &bars,
    };
    device.seed(args.seed);
    let initial = Transformer::<Burns>::new(corpus.vocabulary(), dims, &device);
    println!("{}", report::introduction(&corpus, initial.num_params()));
    // A record of one model loads into the other: names and shapes are the same.
    let weights = initial.into_record();
    if args.check_determinism {
        let (first, second) = trained::<Fused, Fused>(weights, plan, [true; 2])?;
        let runs = [first, second].map(|trainer| trainer.expect("it was asked for").finish().0);
        println!("{}", bits::compare(&runs)?);
        return Ok(());
    }
    // Now rather than after minutes of training, should it fail.
    fs::create_dir_all(args.plot.parent().unwrap_or(Path::new("")))
        .and_then(|()| fs::File::create(&args.plot))
        .map_err(|error| format!("cannot write {}: {error}", args.plot.display()))?;

    let wanted = [args.layers != Whose::Burn, args.layers != Whose::BurnFused];
    let (fused, burns) = trained::<Fused, Burns>(weights, plan, wanted)?;
    let runs =
        [fused.map(|trainer| shown(trainer, args)), burns.map(|trainer| shown(trainer, args))];
    let runs: Vec<Run> = runs.into_iter().flatten().collect();
    println!("\n{}", report::table(&runs, corpus.tokens()));
    println!("{}", report::execution(args.norm, dims, &device)?);
    report::plot(&args.plot, args.norm, &runs)?;
    println!("loss curves: {}", args.plot.display());
    Ok(())
}

/// Two models, of which one may not be wanted.
type Pair<'a, First, Second> = (Option<Trainer<'a, First>>, Option<Trainer<'a, Second>>);

/// Trains what is wanted of two models, in turns.
fn trained<'a, First: Layers, Second: Layers>(
    weights: ModuleRecord,
    plan: Plan<'a>,
    wanted: [bool; 2],
) -> Result<Pair<'a, First, Second>, String> {
    let mut first = wanted[0].then(|| Trainer::new(weights.clone(), plan)).transpose()?;
    let mut second = wanted[1].then(|| Trainer::new(weights, plan)).transpose()?;
    while !(first.as_ref().is_none_or(Trainer::is_done)
        && second.as_ref().is_none_or(Trainer::is_done))
    {
        first = first.map(Trainer::turn).transpose()?;
        second = second.map(Trainer::turn).transpose()?;
    }
    Ok((first, second))
}

/// What came of a training, a sample of which is shown if one is asked for.
fn shown<L: Layers>(trainer: Trainer<L>, args: &Args) -> Run {
    let plan = trainer.plan();
    let (run, model) = trainer.finish();
    if args.sample > 0 {
        let device: Device = plan.device.clone().inner();
        let (context, count) = (plan.dims.context, args.sample);
        let model = model.valid();
        let text =
            sample::sample(&model, plan.corpus, context, &args.prompt, count, args.seed, &device);
        println!("{text}");
    }
    run
}
