//! Times the ops of this crate, and Burn's own, on whatever device there is.
//!
//! `cargo bench --bench ops --features cuda -- --help` shows the choices. Prints a table, and writes
//! `ops.json` and `ops.svg`.

// For the CPU runtime.
#[path = "../../tests/suite/bf16.rs"]
mod bf16;
mod calls;
mod kernels;
mod line;
mod machine;
mod op;
#[path = "../report/mod.rs"]
mod report;
mod timer;

use burn::tensor::FloatDType;
use chrono::Local;
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use line::Line;
use machine::{Machine, Runtime};
use op::Op;
use report::{chart, results::Results, summary::Summary};
use std::{error::Error, fs, path::PathBuf};

const LARGE: [[usize; 2]; 10] = [
    [65_536, 256],
    [32_768, 1024],
    [16_384, 2048],
    [8192, 4096],
    [4096, 8192],
    [2048, 16_384],
    [1024, 65_536],
    [32_768, 768],
    [4096, 5120],
    [8192, 4095],
];

/// All inputs together are within a GPU's cache.
const SMALL: [[usize; 2]; 3] = [[512, 768], [1024, 1024], [128, 4096]];

/// Tokens and what they may be, of language models.
const VOCABULARIES: [[usize; 2]; 3] = [[4096, 32_000], [4096, 128_000], [1024, 256_000]];

/// Times fused norms and softmaxes beside Burn's own.
#[derive(Parser)]
struct Args {
    /// Where to run [default: the first there is]
    #[arg(long, value_enum)]
    device: Option<Runtime>,

    /// An op; may be repeated [default: all]
    #[arg(long, value_enum)]
    op: Vec<Op>,

    /// An element type; may be repeated
    #[arg(long, value_enum, default_values_t = [Dtype::Bf16, Dtype::F32])]
    dtype: Vec<Dtype>,

    /// Rows and columns; may be repeated [default: ten large shapes on GPUs, and three small ones]
    #[arg(long, value_name = "MxN", value_parser = shape)]
    shape: Vec<[usize; 2]>,

    /// The kernels alone, without what users of Burn call
    #[arg(long)]
    kernels: bool,

    /// Folder for ops.json and ops.svg
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,

    /// Cargo adds this
    #[arg(long = "bench", hide = true)]
    _bench: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Dtype {
    Bf16,
    F16,
    F32,
}

impl Dtype {
    fn float(self) -> FloatDType {
        match self {
            Self::Bf16 => FloatDType::BF16,
            Self::F16 => FloatDType::F16,
            Self::F32 => FloatDType::F32,
        }
    }

    /// As results name it.
    fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::F32 => "f32",
        }
    }
}

fn shape(text: &str) -> Result<[usize; 2], String> {
    let size = |text: &str| text.parse().ok().filter(|size| *size > 0);
    text.split_once('x')
        .and_then(|(rows, columns)| Some([size(rows)?, size(columns)?]))
        .ok_or_else(|| "expected rows and columns, as 8192x4096".into())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let runtimes = args.device.as_ref().map_or(Runtime::value_variants(), std::slice::from_ref);
    let Some(machine) = Machine::open(runtimes) else {
        println!("skipped: no device that this build has a runtime for");
        return Ok(());
    };
    let mut results = Results {
        device: machine.name(),
        about: about(),
        date: Local::now().format("%Y-%m-%d").to_string(),
        copy_gbps: machine.copy_bandwidth().round(),
        method: format!(
            "device: {}; inputs rotate over sets larger than the cache. queued: wall time of calls \
             through Burn, 200 in a window; backward is forward and backward of a gradient of ones, \
             less those ones and forward. host: wall time to queue a call, of 1,000. copy: bytes read and written",
            machine.timer.method()
        ),
        rows: Vec::new(),
    };
    println!("{}: copy {:.0} GB/s", results.device, results.copy_gbps);
    println!("{}", Line::HEAD);
    let cases = cases(&args, &machine);
    let template = "{bar:30} {pos}/{len}, {eta} left: {msg}";
    let style = ProgressStyle::with_template(template).expect("the template is valid");
    let progress = ProgressBar::new(cases.len() as u64).with_style(style);
    for (op, dtype, shape) in cases {
        progress.set_message(format!("{} {} {}x{}", op.name(), dtype.name(), shape[0], shape[1]));
        let line = Line::measure(&machine, op, dtype, shape, !args.kernels);
        progress.suspend(|| println!("{}", line.text(results.copy_gbps)));
        results.rows.extend(line.rows());
        machine.clean();
        progress.inc(1);
    }
    progress.finish_and_clear();
    fs::create_dir_all(&args.out)?;
    let [json, svg] = ["ops.json", "ops.svg"].map(|name| args.out.join(name));
    results.write(&json)?;
    chart::draw(&svg, &format!("{}, {}", results.device, results.date), &Summary::of([&results]))?;
    println!("wrote {} and {}", json.display(), svg.display());
    Ok(())
}

/// Versions, and how Burn was built.
fn about() -> std::collections::BTreeMap<String, String> {
    let lock = include_str!("../../Cargo.lock");
    let version = |name: &str| {
        let entry = format!("name = \"{name}\"\nversion = \"");
        let rest = lock.split_once(&entry).map_or("", |(_, rest)| rest);
        rest.split('"').next().unwrap_or_default().to_owned()
    };
    [
        ("burn_fused", env!("CARGO_PKG_VERSION").to_owned()),
        ("burn", version("burn")),
        ("cubecl", version("cubecl")),
        ("fusion", if cfg!(feature = "fusion") { "on" } else { "off" }.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn cases(args: &Args, machine: &Machine) -> Vec<(Op, Dtype, [usize; 2])> {
    let ops = if args.op.is_empty() { Op::value_variants() } else { &args.op };
    let large = if machine.is_processor() { &[][..] } else { &LARGE };
    let defaults = [large, &SMALL].concat();
    let mut cases = Vec::new();
    for op in ops {
        let shapes = match op {
            _ if !args.shape.is_empty() => &args.shape,
            Op::CrossEntropy if !machine.is_processor() => &VOCABULARIES.to_vec(),
            Op::SoftmaxDim1 if machine.is_processor() => &vec![[3136, 512]],
            Op::SoftmaxDim1 => &vec![[64 * 3136, 512]],
            _ => &defaults,
        };
        for dtype in &args.dtype {
            cases.extend(shapes.iter().map(|shape| (*op, *dtype, *shape)));
        }
    }
    cases
}
