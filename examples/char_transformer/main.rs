//! Trains a small character transformer with the norm and the softmax of burn-fused, then the same
//! model from the same weights on the same batches with those of Burn, and compares the two runs.

mod attention;
mod backend;
mod bits;
mod model;
mod norm;
mod progress;
mod report;
mod text;
mod train;

use backend::Backend;
use burn::{module::Module, tensor::Device};
use clap::Parser;
use model::Transformer;
use norm::{Kind, Norm};
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};
use text::Corpus;
use train::{Run, Schedule, train};

/// Trains a character transformer twice: with norm and softmax of burn-fused, and with those of Burn.
#[derive(Parser)]
#[command(name = "char_transformer")]
struct Args {
    /// Text to train on, UTF-8 [default: the sources and documents of this project]
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,

    /// Where to train
    #[arg(long, value_enum, default_value_t = Backend::Cpu)]
    device: Backend,

    /// The norm before each layer
    #[arg(long, value_enum, default_value_t = Kind::Rms)]
    norm: Kind,

    /// Training steps of each run
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,

    /// Seed of the initial weights and of the batches
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Train twice with burn-fused instead, and compare every loss and parameter to the bit
    #[arg(long)]
    check_determinism: bool,

    /// Where to write the loss curves, as SVG
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/target/char_transformer.svg"))]
    plot: PathBuf,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let corpus = Corpus::load(args.text.as_deref())?;
    let device = args.device.open()?.autodiff();
    let schedule = Schedule { steps: args.steps as usize, seed: args.seed };
    if args.check_determinism {
        let run_twice = match args.norm {
            Kind::Rms => compare::<burn_fused::nn::RmsNorm, burn_fused::nn::RmsNorm>,
            Kind::Layer => compare::<burn_fused::nn::LayerNorm, burn_fused::nn::LayerNorm>,
        };
        println!("{}", bits::compare(&run_twice(&corpus, &device, schedule))?);
        return Ok(());
    }
    // Now rather than after minutes of training, should it fail.
    fs::create_dir_all(args.plot.parent().unwrap_or(Path::new("")))
        .and_then(|()| fs::File::create(&args.plot))
        .map_err(|error| format!("cannot write {}: {error}", args.plot.display()))?;

    let compare = match args.norm {
        Kind::Rms => compare::<burn_fused::nn::RmsNorm, burn::nn::RmsNorm>,
        Kind::Layer => compare::<burn_fused::nn::LayerNorm, burn::nn::LayerNorm>,
    };
    let runs = compare(&corpus, &device, schedule);

    println!("\n{}", report::table(&runs));
    println!("{}", report::execution(args.norm, &device)?);
    report::plot(&args.plot, args.norm, &runs)?;
    println!("loss curves: {}", args.plot.display());
    Ok(())
}

/// Trains with either kind of layers, from the same weights on the same batches.
fn compare<First: Norm, Second: Norm>(
    corpus: &Corpus,
    device: &Device,
    schedule: Schedule,
) -> [Run; 2] {
    device.seed(schedule.seed);
    let initial = Transformer::<Second>::new(corpus.vocabulary(), device);
    println!("{}", report::introduction(corpus, initial.num_params()));
    // A record of one model loads into the other: names and shapes are the same.
    let weights = initial.into_record();
    [
        train::<First>(weights.clone(), corpus, device, schedule),
        train::<Second>(weights, corpus, device, schedule),
    ]
}
