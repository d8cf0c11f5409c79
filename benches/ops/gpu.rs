use burn::{
    backend::{Backend, ops::FloatTensorOps, tensor::FloatTensor},
    tensor::{DType, Distribution, FloatDType, Shape},
};
use burn_cubecl::{CubeBackend, CubeDevice};
use cubecl::{client::Client, future::block_on};
#[cfg(feature = "cuda")]
use std::panic::{AssertUnwindSafe, catch_unwind};

type Cube = FloatTensor<CubeBackend>;

/// The device that is timed.
pub struct Gpu {
    client: Client,
    device: CubeDevice,
}

impl Gpu {
    /// The first CUDA device, if there is one.
    #[cfg(feature = "cuda")]
    pub fn open() -> Option<Self> {
        let device = CubeDevice::Cuda(Default::default());
        let client = catch_unwind(AssertUnwindSafe(|| device.client())).ok()?;
        Some(Self { client, device })
    }

    #[cfg(not(feature = "cuda"))]
    pub fn open() -> Option<Self> {
        None
    }

    pub fn name(&self) -> String {
        CubeBackend::name(&self.device)
    }

    pub fn random(&self, dtype: FloatDType, shape: &[usize]) -> Cube {
        let normal = Distribution::Normal(0.0, 1.0);
        CubeBackend::float_random(Shape::from(shape.to_vec()), normal, &self.device, dtype)
    }

    /// Sets of inputs, each made from another `x`. Together they exceed the cache many times over,
    /// where eight can.
    pub fn inputs<T>(
        &self,
        dtype: FloatDType,
        shape: [usize; 2],
        set: impl Fn(Cube) -> T,
    ) -> Vec<T> {
        let bytes = shape[0] * shape[1] * DType::from(dtype).size();
        let count = (400_000_000 / bytes + 1).clamp(2, 8);
        (0..count).map(|_| set(self.random(dtype, &shape))).collect()
    }

    /// Bytes read and written by a large copy, in gigabytes a second.
    pub fn copy_bandwidth(&self) -> f64 {
        let source = self.random(FloatDType::F32, &[1 << 28]);
        let time = self.time(4, |_| drop(source.copy()));
        2.0 * 4.0 * (1u64 << 28) as f64 / time / 1e3
    }

    /// Microseconds of one of `calls` calls in a replayed graph: the median of nine replays.
    pub fn time(&self, calls: usize, call: impl Fn(usize)) -> f64 {
        let client = &self.client;
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
}
