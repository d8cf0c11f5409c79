//! Calls that are captured in a graph of the device's and replayed: the bits of calls one by one.

use crate::{device, random::Random, values::Values};
use burn::{
    backend::{TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor},
    tensor::{DType, TensorData},
};
use burn_cubecl::CubeBackend;
use burn_fused::ops::{
    Norm, NormOps, NormSpec, NormUpstream, NormWanted, OptionalTensor, Softmax, SoftmaxOps,
};
use cubecl::{
    bytes::Bytes,
    client::{Client, Graph},
    future::block_on,
};
use std::{env, process::Command};

type Tensor = FloatTensor<CubeBackend>;

const REPLAYS: usize = 100;

fn read(tensor: &Tensor) -> TensorData {
    assert!(tensor.shape().num_elements() > 0, "there is something to compare");
    block_on(CubeBackend::float_into_data(tensor.clone())).expect("the device is well")
}

/// `call` as a graph, and its outputs. A capture for which the memory held does not suffice fails: the next one
/// is preceded by more calls side by side.
fn capture(client: &Client, call: &impl Fn() -> Vec<Tensor>) -> (Graph, Vec<Tensor>) {
    let mut failed = None;
    for calls in [1, 4, 16] {
        client.graph_prepare().expect("the device captures graphs");
        drop((0..calls).map(|_| call()).collect::<Vec<_>>());
        client.start_capture().expect("the device captures graphs");
        let outputs = call();
        match client.stop_capture() {
            Ok(graph) => return (graph, outputs),
            Err(error) => failed = Some(error),
        }
    }
    panic!("the calls cannot be captured: {failed:?}")
}

/// `call` gives its outputs.
fn check(name: &str, call: impl Fn() -> Vec<Tensor>) {
    let client = device::cube().expect("there is a device").client();
    let expected: Vec<_> = call().iter().map(read).collect();
    let (graph, outputs) = capture(&client, &call);
    for replay in 0..REPLAYS {
        for (output, expected) in outputs.iter().zip(&expected) {
            // As long as its rows: what is behind them in its buffer is not its own.
            let poison = vec![0xFF; expected.as_bytes().len()];
            client.write(&output.handle, Bytes::from_bytes_vec(poison));
        }
        // SAFETY: inputs and outputs of the captured calls are alive.
        unsafe { graph.replay() }.expect("the graph replays");
        for (output, expected) in outputs.iter().zip(&expected) {
            let found = read(output);
            assert!(found.as_bytes() == expected.as_bytes(), "{name}: replay {replay} differs");
        }
    }
}

fn norm(norm: Norm, dtype: DType, shape: [usize; 2], tensor: &mut impl FnMut(&[usize]) -> Tensor) {
    let (x, dy) = (tensor(&shape), tensor(&shape));
    let mut parameter = || OptionalTensor::Some(tensor(&shape[1..]));
    let (gamma, beta) = match norm {
        Norm::Rms => (parameter(), OptionalTensor::None),
        Norm::Layer => (parameter(), parameter()),
    };
    let wanted = NormWanted { x: true, gamma: true, beta: (norm == Norm::Layer).then_some(dtype) };
    let spec = NormSpec::new(norm, 1, 1e-5, dtype.into());
    check(&format!("{norm:?} {dtype:?} {shape:?}"), || {
        let (x, dy) = (x.clone(), dy.clone());
        let out = CubeBackend::norm_forward(x.clone(), gamma.clone(), beta.clone(), spec);
        let statistics = out.statistics;
        let upstream = NormUpstream { y: dy, x: OptionalTensor::None };
        let gradients =
            CubeBackend::norm_backward(x, gamma.clone(), statistics, upstream, spec, wanted);
        let optional =
            [gradients.x, gradients.gamma, gradients.beta].map(OptionalTensor::into_option);
        [Some(out.y)].into_iter().chain(optional).flatten().collect()
    });
}

fn softmax(form: Softmax, dtype: DType, shape: [usize; 2], x: Tensor, dy: Tensor) {
    check(&format!("{form:?} {dtype:?} {shape:?}"), || {
        let y = CubeBackend::softmax_forward(x.clone(), 1, form);
        let dx = CubeBackend::softmax_backward(y.clone(), dy.clone(), 1, form);
        vec![y, dx]
    });
}

/// Whether the device captures graphs; says so where it does not.
fn captures() -> bool {
    let there = device::open().is_some();
    if there && device::name() != "cuda" {
        println!("skipped: {} captures no graphs", device::name());
    }
    there && device::name() == "cuda"
}

/// In a process of its own: whatever another thread allocates ends a capture.
#[test]
fn same_bits() {
    if !captures() {
        return;
    }
    let suite = env::current_exe().expect("the suite is a program");
    let status = Command::new(suite).args(["--exact", "replay::captured", "--ignored"]).status();
    assert!(status.expect("it runs").success(), "its failure is above");
}

#[test]
#[ignore = "same_bits runs it"]
fn captured() {
    if !captures() {
        return;
    }
    let cube = device::cube().expect("CUDA is one of CubeCL's");
    let mut random = Random::of("replay");
    for dtype in [DType::F32, DType::BF16] {
        for shape in [[4096, 256], [1024, 4096], [64, 16_384], [16, 65_536], [300, 4095]] {
            let mut tensor = |shape: &[usize]| {
                let values = Values::normal(shape, dtype, &mut random);
                CubeBackend::float_from_data(values.data(), &cube)
            };
            norm(Norm::Rms, dtype, shape, &mut tensor);
            norm(Norm::Layer, dtype, shape, &mut tensor);
            for form in [Softmax::Plain, Softmax::Log] {
                softmax(form, dtype, shape, tensor(&shape), tensor(&shape));
            }
        }
    }
}
