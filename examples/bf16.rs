//! Every op in bf16 on CubeCL's CPU runtime, forwards and backwards, beside the same in f32: what a program gets that
//! depends on the crate and on nothing else, whatever the processor and the system's libgcc lack.
//!
//! ```sh
//! cargo run --features cpu --example bf16
//! ```
//!
//! Gradients are of the usual size, and so small that bf16 holds them as subnormal numbers. Of Burn's own operations
//! in bf16 there is none here: docs/bf16.md says what they need.

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use burn_fused::{
    AttentionSoftmaxOptions, CrossEntropyOptions, add_layer_norm, add_rms_norm, attention_softmax,
    cross_entropy, layer_norm, log_softmax, rms_norm, rms_norm_execution, softmax,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

const ROWS: usize = 12;
/// A row's last vector is a part of one.
const COLUMNS: usize = 37;
/// Bits of bf16's significand are 8: half of the last one each for the output, the gradient that reaches it, and its own.
const TOLERANCE: f64 = 3.0 / 256.0;
/// Four times the distance of subnormal numbers: gradients are sums of up to 37 numbers that are rounded to one.
const SUBNORMAL: f64 = 4.0 * 9.2e-41;
/// Weights of the losses: gradients of 1, and of some fifty subnormal numbers.
const SIZES: [f32; 2] = [1.0, 5e-39];

const TRANSPOSE: &str = "softmax of a transpose";

type Row = Tensor<1>;
type Matrix = Tensor<2>;

/// An op of `x` and, where they are taken, two parameters of a row. The outputs.
type Op = fn(Matrix, [Row; 2], Matrix) -> Vec<Matrix>;

const OPS: [(&str, Op); 10] = [
    ("rms_norm", |x, [gamma, _], _| vec![rms_norm(x, Some(gamma), 1e-5)]),
    ("layer_norm", |x, [gamma, beta], _| vec![layer_norm(x, Some(gamma), Some(beta), 1e-5)]),
    ("add_rms_norm", |x, [gamma, _], residual| {
        let (y, sum) = add_rms_norm(x, residual, Some(gamma), 1e-5);
        vec![y, sum]
    }),
    ("add_layer_norm", |x, [gamma, beta], residual| {
        let (y, sum) = add_layer_norm(x, residual, Some(gamma), Some(beta), 1e-5);
        vec![y, sum]
    }),
    ("softmax", |x, _, _| vec![softmax(x, 1)]),
    ("softmax down columns", |x, _, _| vec![softmax(x, 0)]),
    // Copied first, and its gradient too. Read as it lies, for which Burn copies nothing.
    (TRANSPOSE, |x, _, _| vec![softmax(x.transpose(), 1).transpose()]),
    ("log_softmax", |x, _, _| vec![log_softmax(x, 1)]),
    ("log_softmax down columns", |x, _, _| vec![log_softmax(x, 0)]),
    ("attention_softmax", |x, [bias, _], _| {
        let options = AttentionSoftmaxOptions { scale: 0.5, causal: Some(30) };
        vec![attention_softmax(x, None, Some(bias.unsqueeze()), options)]
    }),
];

fn main() {
    let device = Device::cpu().autodiff();
    let mut random = StdRng::seed_from_u64(18);
    let mut normal = |len: usize, size: f32| -> Vec<f32> {
        let sum = |random: &mut StdRng| (0..12).map(|_| random.random::<f32>()).sum::<f32>() - 6.0;
        // Alike in both types.
        let round = |value: f32| half::bf16::from_f32(value).to_f32();
        (0..len).map(|_| round(size * sum(&mut random))).collect()
    };
    let data = Data {
        x: normal(ROWS * COLUMNS, 3.0),
        residual: normal(ROWS * COLUMNS, 3.0),
        parameters: [normal(COLUMNS, 1.0), normal(COLUMNS, 1.0)],
    };
    let x = data.matrix(&data.x, DType::BF16, &device);
    println!("{}", rms_norm_execution(&x, None::<&Row>).expect("bf16 is taken").path);
    let mut wrong = 0;
    for (name, op) in OPS {
        for size in SIZES {
            let run = |dtype| data.run(op, name == TRANSPOSE, size, dtype, &device);
            let (exact, found) = (run(DType::F32), run(DType::BF16));
            let names = ["y", "dx", "dgamma or dbias", "dbeta"];
            for ((what, exact), found) in names.iter().zip(exact).zip(found) {
                let largest = exact.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
                // NaN is an error too.
                let off = exact.iter().zip(&found).map(|(exact, found)| (exact - found).abs());
                let off = off.fold(0.0, |most: f64, off| if off <= most { most } else { off });
                let right = off <= TOLERANCE * largest + SUBNORMAL;
                wrong += usize::from(!right);
                let verdict = if right { "" } else { "  WRONG" };
                println!(
                    "{name}, gradients of {size:.0e}: {what} up to {largest:.2e}, off by {off:.1e}{verdict}"
                );
            }
        }
    }
    assert_eq!(wrong, 0, "results that are not those of f32");
}

/// What ops are given.
struct Data {
    x: Vec<f32>,
    residual: Vec<f32>,
    parameters: [Vec<f32>; 2],
}

impl Data {
    fn matrix(&self, values: &[f32], dtype: DType, device: &Device) -> Matrix {
        let data = TensorData::new(values.to_vec(), [ROWS, COLUMNS]);
        Matrix::from_data(data, (device, dtype))
    }

    /// The output and the gradients, where they are, under a cross-entropy of each output whose losses weigh `size`.
    fn run(
        &self,
        op: Op,
        transposed: bool,
        size: f32,
        dtype: DType,
        device: &Device,
    ) -> Vec<Vec<f64>> {
        let laid =
            |found: Matrix| exact(if transposed { found.transpose() } else { found }.into_data());
        let x = self.matrix(&self.x, dtype, device).require_grad();
        let residual = self.matrix(&self.residual, dtype, device);
        let parameters = self.parameters.each_ref().map(|values| {
            let data = TensorData::new(values.clone(), [COLUMNS]);
            Row::from_data(data, (device, dtype)).require_grad()
        });
        let outputs = op(x.clone(), parameters.clone(), residual);
        let y = laid(outputs[0].clone());
        let targets = Tensor::<1, Int>::arange(0..ROWS as i64, device);
        let losses = outputs.into_iter().map(|y| {
            let options = CrossEntropyOptions { label_smoothing: 0.1, ..Default::default() };
            cross_entropy(y, targets.clone(), None, options)
        });
        let losses = losses.reduce(|all, losses| all + losses).expect("there is an output");
        let gradients = losses.mul_scalar(size).sum().backward();
        let of_parameters = parameters.iter().filter_map(|parameter| parameter.grad(&gradients));
        let dx = x.grad(&gradients).expect("x is tracked");
        let gradients = of_parameters.map(|gradient| exact(gradient.into_data()));
        [y, laid(dx)].into_iter().chain(gradients).collect()
    }
}

fn exact(data: TensorData) -> Vec<f64> {
    data.iter::<f64>().collect()
}
