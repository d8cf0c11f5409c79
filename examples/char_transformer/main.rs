//! Trains a small character transformer with `burn_fused::nn::RmsNorm`, then the same model from
//! the same weights on the same batches with `burn::nn::RmsNorm`, and compares the two runs.

mod backend;
mod model;
mod progress;
mod report;
mod text;
mod train;

use backend::Backend;
use burn::module::Module;
use clap::Parser;
use model::Transformer;
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};
use text::Corpus;
use train::{Schedule, train};

/// Trains a character transformer twice: with the RMSNorm of burn-fused, and with that of Burn.
#[derive(Parser)]
#[command(name = "char_transformer")]
struct Args {
    /// Text to train on, UTF-8 [default: the sources and documents of this project]
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,

    /// Where to train
    #[arg(long, value_enum, default_value_t = Backend::Cpu)]
    device: Backend,

    /// Training steps of each run
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,

    /// Seed of the initial weights and of the batches
    #[arg(long, default_value_t = 1)]
    seed: u64,

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
    // Now rather than after minutes of training, should it fail.
    fs::create_dir_all(args.plot.parent().unwrap_or(Path::new("")))
        .and_then(|()| fs::File::create(&args.plot))
        .map_err(|error| format!("cannot write {}: {error}", args.plot.display()))?;

    device.seed(args.seed);
    let initial = Transformer::<burn::nn::RmsNorm>::new(corpus.vocabulary(), &device);
    println!("{}", report::introduction(&corpus, initial.num_params()));
    // A record of one model loads into the other: names and shapes are the same.
    let weights = initial.into_record();
    let schedule = Schedule { steps: args.steps as usize, seed: args.seed };
    let fused = train::<burn_fused::nn::RmsNorm>(weights.clone(), &corpus, &device, schedule);
    let stock = train::<burn::nn::RmsNorm>(weights, &corpus, &device, schedule);

    println!("\n{}", report::table([&fused, &stock]));
    println!("path of {}: {}", fused.name, report::execution(&device)?);
    report::plot(&args.plot, [&fused, &stock])?;
    println!("loss curves: {}", args.plot.display());
    Ok(())
}
