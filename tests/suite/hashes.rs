//! The bits of fixed inputs, as hashes on file: a change of bits is seen, and has to be named in CHANGELOG.
//!
//! Bits are promised across devices that the same code is made for, which is what CubeCL calls a device's
//! fingerprint. The hashes of one that has none on file are written there by
//! `BURN_FUSED_HASHES=write scripts/test --device NAME -- hashes`.

use crate::{
    add_norm::{AddNorm, Sums, Used},
    attention_softmax, cross_entropy, device,
    layer_norm::LayerNorm,
    op::{Data, Op, dtypes},
    random::Random,
    rms_norm::RmsNorm,
    softmax::{LogSoftmax, Softmax},
    values::Values,
};
use burn::tensor::{DType, Device, TensorData};
use burn_fused::{AttentionSoftmaxOptions, CrossEntropyOptions};
use fnv::FnvHasher;
use std::{
    collections::BTreeMap,
    env, fs,
    hash::Hasher,
    path::{Path, PathBuf},
};

/// Whole vectors and parts of one, sums over few rows and many; then rows that GPUs hold and that they have
/// other kernels for.
const SHAPES: [[usize; 2]; 9] = [
    [64, 1024],
    [5, 4095],
    [3000, 64],
    [33, 4096],
    [300, 768],
    [7, 257],
    [3, 40_001],
    [40, 16_384],
    [2, 131_072],
];
/// As many of them as a slow device is asked for.
const FEW: usize = 3;

/// Uniform values: rounded by no function that a platform has its own version of.
fn uniform(shape: &[usize], dtype: DType, random: &mut Random) -> Values {
    Values::of(shape, dtype, |_| 2.0 * random.uniform() - 1.0)
}

fn data<O: Op>(shape: [usize; 2], dtype: DType, random: &mut Random) -> Data {
    let mut uniform = |shape: &[usize]| uniform(shape, dtype, random);
    let (x, dy) = (uniform(&shape), uniform(&shape));
    let parameters = O::PARAMETERS.iter().map(|_| Some(uniform(&shape[1..]))).collect();
    Data { x, parameters, dy, axes: 1 }
}

fn hash(data: &TensorData) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(data.as_bytes());
    hasher.finish()
}

/// A line for each case: what it is, and the hashes of what a run of it gave.
struct Lines {
    device: Device,
    lines: BTreeMap<String, String>,
}

impl Lines {
    fn add<O: Op>(
        &mut self,
        name: &str,
        run: impl Fn([usize; 2], DType, &mut Random, &Device) -> Vec<Option<TensorData>>,
    ) {
        let dtypes = dtypes::<O>(&self.device);
        for dtype in [DType::F32, DType::BF16].into_iter().filter(|dtype| dtypes.contains(dtype)) {
            let shapes = if device::is_fast() { &SHAPES[..] } else { &SHAPES[..FEW] };
            for &shape in shapes {
                let outputs = run(shape, dtype, &mut Random::from_seed(1), &self.device);
                let hashes = outputs.iter().flatten().map(|data| format!("{:016x}", hash(data)));
                let hashes: Vec<_> = hashes.collect();
                let [rows, columns] = shape;
                self.lines.insert(format!("{name} {dtype:?} {rows}x{columns}"), hashes.join(" "));
            }
        }
    }

    /// Of y, dx and the gradients of parameters.
    fn op<O: Op>(&mut self, op: O, form: &str) {
        self.add::<O>(&format!("{}{form}", O::NAME), |shape, dtype, random, device| {
            let outcome = data::<O>(shape, dtype, random).run(op, device);
            [Some(outcome.y), outcome.dx].into_iter().chain(outcome.parameters).collect()
        });
    }

    /// Of y, the sum and the gradients of the inputs and of parameters.
    fn of_sum<O: AddNorm>(&mut self, op: O) {
        self.add::<O>(O::ADD, |shape, dtype, random, device| {
            let data = data::<O>(shape, dtype, random);
            let [residual, dsum] = [(); 2].map(|()| uniform(&shape, dtype, random));
            let sums = Sums { data, residual, dsum };
            let found = sums.run(op, Used::Both, usize::MAX, device);
            [Some(found.y), Some(found.sum)].into_iter().chain(found.gradients).collect()
        });
    }

    /// Of y, dx and the gradient of a bias that all rows share.
    fn attention_softmax(&mut self) {
        self.add::<Softmax>("attention_softmax", |shape, dtype, random, device| {
            let mask = (0..shape[1]).map(|column| column % 5 == 3).collect();
            let inputs = attention_softmax::Inputs {
                x: uniform(&shape, dtype, random),
                mask: Some(attention_softmax::Mask { shape: vec![1, shape[1]], data: mask }),
                bias: Some(uniform(&[1, shape[1]], dtype, random)),
                options: AttentionSoftmaxOptions { scale: 0.3, causal: Some(shape[1] / 2) },
                dy: uniform(&shape, dtype, random),
            };
            let found = inputs.run::<2>(device);
            vec![Some(found.y), found.dx, found.dbias]
        });
    }

    /// Of losses and the gradients of logits.
    fn cross_entropy(&mut self) {
        self.add::<Softmax>("cross_entropy", |shape, dtype, random, device| {
            let [rows, classes] = shape;
            let inputs = cross_entropy::Inputs {
                logits: uniform(&shape, dtype, random),
                targets: (0..rows).map(|row| (7 * row % classes) as i64).collect(),
                weights: Some(uniform(&[classes], dtype, random)),
                options: CrossEntropyOptions { ignore_index: Some(0), label_smoothing: 0.125 },
                grads: uniform(&[rows], DType::F32, random),
            };
            let found = inputs.run(device);
            vec![Some(found.losses), Some(found.dlogits)]
        });
    }
}

/// Where the hashes of a device are.
fn path(fingerprint: &str) -> PathBuf {
    let file = fingerprint.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/suite/hashes")
        .join(file)
        .with_extension("txt")
}

#[test]
fn are_those_on_file() {
    let Some(device) = device::open() else { return };
    let client = device::cube().map(|cube| cube.client());
    // Mesa's compiler makes other code in each version.
    let Some(client) = client.filter(|_| ["cpu", "cuda"].contains(&&*device::name())) else {
        return println!("skipped: no bits are promised for {}", device::name());
    };
    let path = path(&client.properties().identity.fingerprint);
    let mut lines = Lines { device, lines: BTreeMap::new() };
    lines.op(RmsNorm::default(), "");
    lines.op(LayerNorm::default(), "");
    lines.op(Softmax(-1), "");
    lines.op(LogSoftmax(-1), "");
    lines.op(Softmax(0), " down columns");
    lines.op(LogSoftmax(0), " down columns");
    lines.of_sum(RmsNorm::default());
    lines.of_sum(LayerNorm::default());
    lines.attention_softmax();
    lines.cross_entropy();
    let lines = lines.lines.iter();
    let found: String = lines.map(|(case, hashes)| format!("{case}: {hashes}\n")).collect();
    if env::var("BURN_FUSED_HASHES").is_ok_and(|wish| wish == "write") {
        return fs::write(&path, found).expect("the tests' folder can be written to");
    }
    let Ok(expected) = fs::read_to_string(&path) else {
        return println!("skipped: there is no {}; the hashes are\n{found}", path.display());
    };
    let changed: Vec<_> = expected.lines().zip(found.lines()).filter(|(a, b)| a != b).collect();
    assert!(
        changed.is_empty() && expected.len() == found.len(),
        "bits are not those on file: name the change in CHANGELOG, and write the hashes anew.\n{changed:#?}"
    );
}
