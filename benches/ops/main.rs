//! Device time of the ops, forward and backward with both stages, allocations included.
//!
//! `cargo bench --bench ops --features cuda -- [--op OP]... [--dtype DTYPE]... [--shape MxN]...` on
//! a CUDA device: replays of a captured graph, whose calls rotate over several inputs. Elsewhere it
//! says that it was skipped.

mod gpu;
mod op;

use burn::tensor::{DType, FloatDType};
use clap::{Parser, ValueEnum};
use gpu::Gpu;
use op::Op;

const SHAPES: [[usize; 2]; 13] = [
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
    // All inputs together are within the cache.
    [512, 768],
    [1024, 1024],
    [128, 4096],
];

/// Times the ops on the first CUDA device.
#[derive(Parser)]
struct Args {
    /// An op; may be repeated [default: all]
    #[arg(long, value_enum)]
    op: Vec<Op>,

    /// An element type; may be repeated
    #[arg(long, value_enum, default_values_t = [Dtype::Bf16, Dtype::F32])]
    dtype: Vec<Dtype>,

    /// Rows and columns; may be repeated [default: ten large shapes, three small ones]
    #[arg(long, value_name = "MxN", value_parser = shape)]
    shape: Vec<[usize; 2]>,

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

impl From<Dtype> for FloatDType {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::Bf16 => Self::BF16,
            Dtype::F16 => Self::F16,
            Dtype::F32 => Self::F32,
        }
    }
}

fn shape(text: &str) -> Result<[usize; 2], String> {
    let size = |text: &str| text.parse().ok().filter(|size| *size > 0);
    text.split_once('x')
        .and_then(|(rows, columns)| Some([size(rows)?, size(columns)?]))
        .ok_or_else(|| "expected rows and columns, as 8192x4096".into())
}

fn main() {
    let args = Args::parse();
    let Some(gpu) = Gpu::open() else {
        println!("skipped: no CUDA device, or the feature `cuda` is off");
        return;
    };
    let ops = if args.op.is_empty() { Op::value_variants() } else { &args.op };
    let shapes = if args.shape.is_empty() { &SHAPES[..] } else { &args.shape };
    let copy = gpu.copy_bandwidth();
    println!("{}: copy {copy:.0} GB/s", gpu.name());
    println!(
        "{:11} {:8} {:>5} {:>13} {:>9} {:>8}",
        "op", "pass", "dtype", "shape", "µs", "of copy"
    );
    for op in ops {
        for dtype in args.dtype.iter().copied().map(FloatDType::from) {
            for [rows, columns] in shapes.iter().copied() {
                let [forward, backward] = op.time(&gpu, dtype, [rows, columns]);
                let bytes = (rows * columns * DType::from(dtype).size()) as f64;
                // Tensors of the input's size that are read and written.
                for (pass, time, tensors) in
                    [("forward", forward, 2.0), ("backward", backward, 3.0)]
                {
                    let share = tensors * bytes / time / 1e3 / copy;
                    let dtype = format!("{dtype:?}").to_lowercase();
                    println!(
                        "{:11} {pass:8} {dtype:>5} {rows:>6}×{columns:<6} {time:>9.2} {share:>8.2}",
                        op.name(),
                    );
                }
            }
        }
    }
}
