//! The bits of fixed inputs, as hashes on file: a change of bits is seen, and has to be named in CHANGELOG.
//!
//! Bits are promised across devices that the same code is made for, which is what CubeCL calls a device's
//! fingerprint. The hashes of one that has none on file are written there by
//! `BURN_FUSED_HASHES=write scripts/test --device NAME -- hashes`.

use crate::{
    device,
    layer_norm::LayerNorm,
    op::{Data, Op, dtypes},
    random::Random,
    rms_norm::RmsNorm,
    softmax::{LogSoftmax, Softmax},
    values::Values,
};
use burn::tensor::{DType, Device, TensorData};
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
fn data<O: Op>(shape: [usize; 2], dtype: DType) -> Data {
    let mut random = Random::from_seed(1);
    let mut uniform = |shape: &[usize]| Values::of(shape, dtype, |_| 2.0 * random.uniform() - 1.0);
    let (x, dy) = (uniform(&shape), uniform(&shape));
    let parameters = O::PARAMETERS.iter().map(|_| Some(uniform(&shape[1..]))).collect();
    Data { x, parameters, dy, axes: 1 }
}

fn hash(data: &TensorData) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(data.as_bytes());
    hasher.finish()
}

/// A line for each case: what it is, and the hashes of y, dx and the gradients of parameters.
fn lines<O: Op>(op: O, form: &str, device: &Device, lines: &mut BTreeMap<String, String>) {
    for dtype in [DType::F32, DType::BF16] {
        if !dtypes::<O>(device).contains(&dtype) {
            continue;
        }
        let shapes = if device::is_fast() { &SHAPES[..] } else { &SHAPES[..FEW] };
        for &shape in shapes {
            let outcome = data::<O>(shape, dtype).run(op, device);
            let outputs = [Some(&outcome.y), outcome.dx.as_ref()];
            let outputs = outputs.into_iter().chain(outcome.parameters.iter().map(Option::as_ref));
            let hashes: Vec<_> =
                outputs.flatten().map(|data| format!("{:016x}", hash(data))).collect();
            let [rows, columns] = shape;
            let case = format!("{}{form} {dtype:?} {rows}x{columns}", O::NAME);
            lines.insert(case, hashes.join(" "));
        }
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
    let mut found = BTreeMap::new();
    lines(RmsNorm::default(), "", &device, &mut found);
    lines(LayerNorm::default(), "", &device, &mut found);
    lines(Softmax(-1), "", &device, &mut found);
    lines(LogSoftmax(-1), "", &device, &mut found);
    lines(Softmax(0), " down columns", &device, &mut found);
    lines(LogSoftmax(0), " down columns", &device, &mut found);
    let found: String = found.iter().map(|(case, hashes)| format!("{case}: {hashes}\n")).collect();
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
