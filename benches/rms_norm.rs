//! Device time of RMSNorm, forward and backward with both stages, allocations included.
//!
//! `cargo bench --bench rms_norm --features cuda` on a CUDA device: replays of a captured graph,
//! whose calls rotate over inputs larger than the cache. Elsewhere it says that it was skipped.

use burn::{
    backend::{Backend, ops::FloatTensorOps, tensor::FloatTensor},
    tensor::{DType, Distribution, FloatDType, Shape},
};
use burn_cubecl::{CubeBackend, CubeDevice};
use burn_fused::ops::{OptionalTensor, RmsNormOps};
use cubecl::{client::Client, future::block_on};
use std::panic::{AssertUnwindSafe, catch_unwind};

type Cube = FloatTensor<CubeBackend>;

const SHAPES: [[usize; 2]; 9] = [
    [65_536, 256],
    [32_768, 1024],
    [16_384, 2048],
    [8192, 4096],
    [4096, 8192],
    [2048, 16_384],
    [1024, 65_536],
    [4096, 5120],
    [8192, 4095],
];

fn main() {
    let Some(device) = device() else {
        println!("skipped: no CUDA device, or the feature `cuda` is off");
        return;
    };
    let client = device.client();
    let copy = copy_bandwidth(&client, &device);
    println!("{}: copy {copy:.0} GB/s", CubeBackend::name(&device));
    println!("{:8} {:>5} {:>13} {:>9} {:>8}", "pass", "dtype", "shape", "µs", "of copy");
    for dtype in [FloatDType::BF16, FloatDType::F32] {
        for shape in SHAPES {
            let [forward, backward] = rms_norm(&client, &device, dtype, shape);
            let bytes = (shape[0] * shape[1] * DType::from(dtype).size()) as f64;
            for (pass, time, tensors) in [("forward", forward, 2.0), ("backward", backward, 3.0)] {
                let share = tensors * bytes / time / 1e3 / copy;
                let [rows, columns] = shape;
                let dtype = format!("{dtype:?}").to_lowercase();
                println!("{pass:8} {dtype:>5} {rows:>6}×{columns:<6} {time:>9.2} {share:>8.2}");
            }
        }
    }
}

#[cfg(feature = "cuda")]
fn device() -> Option<CubeDevice> {
    let device = CubeDevice::Cuda(Default::default());
    catch_unwind(AssertUnwindSafe(|| drop(device.client()))).ok()?;
    Some(device)
}

#[cfg(not(feature = "cuda"))]
fn device() -> Option<CubeDevice> {
    None
}

/// Sets of inputs that together exceed the cache many times over.
fn sets(bytes: usize) -> usize {
    (400_000_000 / bytes + 1).clamp(2, 8)
}

fn random(device: &CubeDevice, dtype: FloatDType, shape: &[usize]) -> Cube {
    let normal = Distribution::Normal(0.0, 1.0);
    CubeBackend::float_random(Shape::from(shape.to_vec()), normal, device, dtype)
}

/// Microseconds of a forward and of a backward pass.
fn rms_norm(
    client: &Client,
    device: &CubeDevice,
    dtype: FloatDType,
    shape: [usize; 2],
) -> [f64; 2] {
    let gamma = random(device, dtype, &shape[1..]);
    let count = sets(shape[0] * shape[1] * DType::from(dtype).size());
    let inputs: Vec<(Cube, Cube, Cube)> = (0..count)
        .map(|_| {
            let (x, dy) = (random(device, dtype, &shape), random(device, dtype, &shape));
            let gamma = OptionalTensor::Some(gamma.clone());
            let r = CubeBackend::rms_norm_forward(x.clone(), gamma, 1, 1e-5).inverse_rms;
            (x, dy, r)
        })
        .collect();
    let forward = time(client, 20, |i| {
        let (x, ..) = &inputs[i % count];
        CubeBackend::rms_norm_forward(x.clone(), OptionalTensor::Some(gamma.clone()), 1, 1e-5);
    });
    let backward = time(client, 20, |i| {
        let (x, dy, r) = inputs[i % count].clone();
        let gamma = OptionalTensor::Some(gamma.clone());
        CubeBackend::rms_norm_backward(x, gamma, r, dy, 1, true, true);
    });
    [forward, backward]
}

fn copy_bandwidth(client: &Client, device: &CubeDevice) -> f64 {
    let source = random(device, FloatDType::F32, &[1 << 28]);
    let time = time(client, 4, |_| drop(source.copy()));
    2.0 * 4.0 * (1u64 << 28) as f64 / time / 1e3
}

/// Microseconds of one of `calls` calls in a replayed graph: the median of nine replays.
fn time(client: &Client, calls: usize, call: impl Fn(usize)) -> f64 {
    let run = || (0..calls).for_each(&call);
    run();
    block_on(client.sync()).expect("the warm-up runs");
    client.graph_prepare().expect("the device captures graphs");
    run();
    client.start_capture().expect("the device captures graphs");
    run();
    let graph = client.stop_capture().expect("the calls can be captured");
    let mut times: Vec<f64> = (0..9)
        .map(|_| {
            block_on(client.sync()).expect("the device is well");
            let window = client.profile_start().expect("the device has timers");
            // SAFETY: the buffers of the captured calls are alive.
            unsafe { graph.replay() }.expect("the graph replays");
            let duration = client.profile_end(window).expect("the window is open");
            block_on(duration.into_future()).expect("the timer ran").duration().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[4] * 1e6 / calls as f64
}
