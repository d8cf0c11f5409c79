//! What users of other projects reported, where no test of a subject has it already.
//!
//! Those that do: layouts of gradients and of x (unsloth 10617, VeOmni 958) and misaligned views of
//! 3584 columns (flashinfer 634) are in `laws::layouts`; row counts, lengths and sums over rows
//! (torch-xpu-ops 4790, Liger 950, llm.c 428, apex 411, flash-attention 1620, pytorch 28614,
//! burn 5333) in `laws::grid`; chunks of a batch (RL-Kernel 300) in `laws::rows`; tensors past 2³¹
//! elements (Liger 803, pytorch 181555) in `laws::large`; gradients that are missing or corrupted
//! (candle 2168, Liger 370) in `laws::graph` and `laws::in_place`; types that leave the fused path
//! (pytorch 167308) in `laws::execution`; x from another stream (Liger 1450) in `laws::threads`;
//! overflow, epsilon and infinities (pytorch 178123, LeetCUDA 335, burn 2185, 2193, 5211, 4694,
//! DeepSpeed 581, b12x 121, burn 1992) in each op's `numbers`; swapped dimensions before softmax
//! (burn 3142) in `softmax::dims`; rows that Burn publishes (burn 315, 4815) in `published`.

use crate::{
    compare::Report,
    deliver::deliver,
    device,
    layer_norm::LayerNorm,
    op::{Data, Op, Outcome},
    random::Random,
    rms_norm::RmsNorm,
    softmax::{LogSoftmax, Softmax},
    values::Values,
};
use burn::tensor::{DType, Tensor};

/// The values of x.
#[derive(Debug, Clone, Copy)]
enum Fill {
    Zeros,
    /// Normal, of this mean and deviation.
    Normal(f64, f64),
    /// This mean, and 1e-3 more in each column than in the one before.
    Steps(f64),
}

/// The shape, type and values of x.
type Input = (&'static [usize], DType, Fill);

fn check<O: Op>(op: O, (shape, dtype, fill): Input) {
    let Some(device) = device::open() else { return };
    if !device.supports_dtype(dtype) {
        return println!("skipped: {} does not compute in {dtype:?}", device::name());
    }
    let (mut random, mut report) = (Random::of("cases"), Report::default());
    let mut data = Data::random::<O>(shape, 1, dtype, Some(dtype), &mut random);
    let columns = data.columns();
    data.x = Values::of(shape, dtype, |i| match fill {
        Fill::Zeros => 0.0,
        Fill::Normal(mean, deviation) => mean + deviation * random.normal(),
        Fill::Steps(mean) => mean + 1e-3 * (i % columns) as f64,
    });
    let outcome = data.run(op, &device);
    data.check(op, &outcome, &mut report, &format!("{fill:?}"));
    report.finish();
}

/// A test for each name, of each op and each input.
macro_rules! cases {
    ($($(#[$doc:meta])* $name:ident: [$($op:expr),+] of [$($input:expr),+ $(,)?];)+) => {
        $($(#[$doc])*
        #[test]
        fn $name() {
            let inputs: &[Input] = &[$($input),+];
            for &input in inputs {
                $(check($op, input);)+
            }
        })+
    };
}

const NORMAL: Fill = Fill::Normal(0.0, 1.0);
const RMS: RmsNorm = RmsNorm(1e-5);
const LAYER: LayerNorm = LayerNorm(1e-5);
const SOFT: Softmax = Softmax(-1);
const LOG: LogSoftmax = LogSoftmax(-1);

cases! {
    /// flash-attention 781: partial sums of groups without rows were never written, dγ up to 1e20.
    groups_without_rows: [RMS, LAYER] of [(&[4], DType::F32, Fill::Zeros), (&[1, 4], DType::F32, NORMAL)];
    /// attorch 18: the last block of rows was lost, with many rows and few columns.
    last_block_of_rows: [RMS, LAYER] of [
        (&[1025, 63], DType::F32, NORMAL),
        (&[2047, 31], DType::F32, NORMAL),
        (&[4097, 5], DType::F32, NORMAL),
    ];
    /// FlagGems 5392: the row count was taken from the first dimension.
    rows_of_three_dimensions: [RMS, LAYER, SOFT, LOG] of [
        (&[2, 67, 33], DType::F32, NORMAL),
        (&[2, 3, 67, 33], DType::F32, NORMAL),
    ];
    /// pytorch 183861: half of the columns were dropped where a plane is not as wide as assumed.
    columns_of_half_a_plane: [RMS, LAYER, SOFT, LOG] of [
        (&[64, 16], DType::F32, NORMAL),
        (&[64, 48], DType::F32, NORMAL),
        (&[64, 96], DType::F32, NORMAL),
        (&[64, 192], DType::F32, NORMAL),
    ];
    /// quack 9310d47: padding lanes entered the variance.
    padding_in_the_variance: [LAYER] of [
        (&[5, 769], DType::F32, Fill::Normal(1000.0, 1.0)),
        (&[5, 1025], DType::F32, Fill::Normal(-1000.0, 1.0)),
        (&[5, 3], DType::F32, Fill::Normal(1000.0, 1.0)),
    ];
    /// unsloth 19: long rows were refused.
    rows_past_the_limit: [RMS, LAYER, SOFT, LOG] of [
        (&[2, 102_400], DType::F32, NORMAL),
        (&[2, 102_401], DType::BF16, NORMAL),
    ];
    /// burn 5607: the variance cancelled.
    variance_far_below_the_mean: [LAYER] of [
        (&[1, 16], DType::F32, Fill::Steps(0.0)),
        (&[1, 16], DType::F32, Fill::Steps(100.0)),
        (&[1, 16], DType::F32, Fill::Steps(1e3)),
        (&[1, 16], DType::F32, Fill::Steps(1e4)),
    ];
    /// pytorch 51102: a variance of 48,425.
    variance_at_2000: [LAYER] of [(&[5, 4], DType::F32, Fill::Normal(2000.0, 1.0))];
    /// LeetCUDA 335, burn 2193 and 5211: squares past the range of f16.
    squares_past_f16: [RMS, LAYER] of [(&[5, 77], DType::F16, Fill::Normal(0.0, 1000.0))];
    /// burn 1992: the backward pass of a zero vector gave NaN.
    zero_vector: [LAYER, RMS, SOFT, LOG] of [(&[1, 4], DType::F32, Fill::Zeros), (&[3, 257], DType::F16, Fill::Zeros)];
}

/// burn 3142: swapped dimensions before a reduction, under fusion.
#[test]
fn swapped_dimensions_before_a_norm() {
    fn check<O: Op>(op: O) {
        let Some(device) = device::open() else { return };
        let (mut random, mut report) = (Random::of("swapped_dimensions"), Report::default());
        for shape in [[1, 2, 4], [3, 65, 33]] {
            let leaf = Values::normal(&shape, DType::F32, &mut random);
            let x = leaf.tensor::<3>(&device).autodiff().require_grad();
            // An op of Burn's ahead of it, for fusion to take in. Twice a float is exact.
            let swapped = (x.clone() * 2.0).swap_dims(1, 2);
            let mut data =
                Data::random::<O>(&swapped.dims(), 1, DType::F32, Some(DType::F32), &mut random);
            data.x = Values::returned(&swapped.clone().inner().into_data());
            let parameters: Vec<_> = data
                .parameters::<1>(&device)
                .into_iter()
                .map(|p| p.map(|p| p.autodiff().require_grad()))
                .collect();
            let y = op.forward(swapped, parameters.clone());
            let gradients = deliver(y.clone(), data.dy.tensor(&device)).backward();
            let dx = x.grad(&gradients).expect("x is tracked").swap_dims(1, 2) * 0.5;
            let of = |p: &Option<Tensor<1>>| p.as_ref()?.grad(&gradients).map(Tensor::into_data);
            let outcome = Outcome {
                y: y.into_data(),
                dx: Some(dx.into_data()),
                parameters: parameters.iter().map(of).collect(),
            };
            data.check(op, &outcome, &mut report, "swapped");
        }
        report.finish();
    }
    check(RMS);
    check(LAYER);
}
