use burn::tensor::{Device, Tensor};
use clap::ValueEnum;
use std::{
    panic,
    sync::{Arc, Mutex},
};

/// The backends this build can train on.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Backend {
    /// CubeCL's CPU runtime: the kernels, compiled for this machine's cores
    Cpu,
    /// Vulkan, or what else wgpu finds
    #[cfg(any(feature = "wgpu", feature = "vulkan"))]
    Vulkan,
    /// The first NVIDIA GPU
    #[cfg(feature = "cuda")]
    Cuda,
    /// Burn's CPU backend without kernels: the norm runs as composed tensor operations
    #[cfg(feature = "flex")]
    Flex,
}

impl Backend {
    /// The backend's device, once it has answered.
    pub fn open(self) -> Result<Device, String> {
        // Devices open on first use, and panic where there is no driver or no hardware.
        let probe = move || {
            let device = self.device();
            Tensor::<1>::ones([1], &device).into_scalar::<f32>();
            device
        };
        quietly(probe).map_err(|reason| format!("device {self:?} is not available: {reason}"))
    }

    fn device(self) -> Device {
        match self {
            Self::Cpu => Device::cpu(),
            #[cfg(any(feature = "wgpu", feature = "vulkan"))]
            Self::Vulkan => Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
            #[cfg(feature = "cuda")]
            Self::Cuda => Device::cuda(0),
            #[cfg(feature = "flex")]
            Self::Flex => Device::flex(),
        }
    }
}

/// Runs `function`; where it panics, on whatever thread, returns the first panic's message in
/// place of printing it.
fn quietly<T>(function: impl FnOnce() -> T + panic::UnwindSafe) -> Result<T, String> {
    let first = Arc::new(Mutex::new(None));
    let seen = first.clone();
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let message = info.payload_as_str().unwrap_or("it panicked").to_owned();
        seen.lock().unwrap().get_or_insert(message);
    }));
    let result = panic::catch_unwind(function);
    panic::set_hook(hook);
    result.map_err(|_| first.lock().unwrap().take().unwrap_or_default())
}
