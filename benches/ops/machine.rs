use crate::timer::Timer;
use burn::{
    backend::{
        Backend,
        ops::{FloatTensorOps, IntTensorOps},
        tensor::FloatTensor,
    },
    tensor::{DType, Device, Distribution, FloatDType, IntDType, Shape},
};
use burn_cubecl::{CubeBackend, CubeDevice};
use clap::ValueEnum;
use std::panic;

pub type Cube = FloatTensor<CubeBackend>;

/// Devices that run the kernels.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Runtime {
    #[cfg(feature = "cuda")]
    Cuda,
    #[cfg(any(feature = "wgpu", feature = "vulkan"))]
    Vulkan,
    #[cfg(feature = "cpu")]
    Cpu,
}

impl Runtime {
    fn device(self) -> CubeDevice {
        match self {
            #[cfg(feature = "cuda")]
            Self::Cuda => CubeDevice::Cuda(Default::default()),
            #[cfg(any(feature = "wgpu", feature = "vulkan"))]
            Self::Vulkan => {
                use burn::backend::{WgpuDevice, wgpu::WgpuBackend};
                CubeDevice::Wgpu(WgpuDevice::default().on(WgpuBackend::Vulkan))
            }
            #[cfg(feature = "cpu")]
            Self::Cpu => CubeDevice::Cpu(Default::default()),
        }
    }
}

/// The device that is timed.
pub struct Machine {
    pub cube: CubeDevice,
    pub timer: Timer,
}

impl Machine {
    /// The first of `runtimes` that there is.
    pub fn open(runtimes: &[Runtime]) -> Option<Self> {
        // Where there is no driver, runtimes panic.
        let hook = panic::take_hook();
        panic::set_hook(Box::new(|_| {}));
        let found = runtimes.iter().find_map(|runtime| {
            let cube = runtime.device();
            let client = panic::catch_unwind(|| cube.client()).ok()?;
            let device = Device::new(cube.clone());
            Some(Self { timer: Timer::new(client, device), cube })
        });
        panic::set_hook(hook);
        found
    }

    /// As it names itself.
    pub fn name(&self) -> String {
        self.timer.client.properties().identity.name.clone()
    }

    /// Whether it takes milliseconds for what GPUs do in microseconds.
    pub fn is_processor(&self) -> bool {
        // Software rasterizers too.
        self.timer.client.properties().identity.physical.is_none()
    }

    pub fn random(&self, dtype: FloatDType, shape: &[usize]) -> Cube {
        let normal = Distribution::Normal(0.0, 1.0);
        CubeBackend::float_random(Shape::from(shape.to_vec()), normal, &self.cube, dtype)
    }

    /// So many integers below `limit`.
    pub fn integers(&self, count: usize, limit: usize) -> Cube {
        let uniform = Distribution::Uniform(0.0, limit as f64);
        CubeBackend::int_random(Shape::new([count]), uniform, &self.cube, IntDType::I32)
    }

    /// How many inputs of a shape together exceed a GPU's cache many times over, where eight can.
    pub fn sets(&self, dtype: FloatDType, shape: &[usize]) -> usize {
        let bytes = shape.iter().product::<usize>() * DType::from(dtype).size();
        (400_000_000 / bytes + 1).clamp(2, 8)
    }

    /// Bytes read and written by a large copy, in gigabytes a second.
    pub fn copy_bandwidth(&self) -> f64 {
        let len = if self.is_processor() { 1 << 24 } else { 1 << 28 };
        let source = self.random(FloatDType::F32, &[len]);
        let time = self.timer.device(|_| drop(source.copy()));
        2.0 * 4.0 * len as f64 / time / 1e3
    }

    /// Waits for all that was asked of the device, and gives its memory back.
    pub fn clean(&self) {
        CubeBackend::sync(&self.cube).expect("the device is well");
        CubeBackend::memory_cleanup(&self.cube);
    }
}
