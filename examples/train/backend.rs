use burn::tensor::{Device, Tensor};
use clap::ValueEnum;
use cubecl::config::{
    CubeClRuntimeConfig, RuntimeConfig, autotune::AutotuneLevel, profiling::ProfilingLogLevel,
};
use std::{
    env, panic,
    sync::{Arc, Mutex},
};

/// The backends this build can train on.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Backend {
    /// CubeCL's CPU runtime: the kernels, compiled for this machine's cores
    Cpu,
    /// The Vulkan device that wgpu picks
    #[cfg(any(feature = "wgpu", feature = "vulkan"))]
    Vulkan,
    /// The first NVIDIA GPU
    #[cfg(feature = "cuda")]
    Cuda,
    /// Burn's CPU backend without kernels: composed tensor operations
    #[cfg(feature = "flex")]
    Flex,
}

impl Backend {
    /// The best there seems to be, before anything is opened.
    pub fn find() -> Self {
        #[cfg(feature = "cuda")]
        if nvml().is_some_and(|nvml| nvml.device_count().is_ok_and(|count| count > 0)) {
            return Self::Cuda;
        }
        #[cfg(any(feature = "wgpu", feature = "vulkan"))]
        if has_render_node() {
            return Self::Vulkan;
        }
        Self::Cpu
    }

    /// The device's name, and its memory where that is told.
    pub fn describe(self, device: &Device) -> String {
        let name = device.identity().map_or_else(|| self.name(), |device| device.name);
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        match self.memory() {
            Some([total, free]) => format!(
                "{name}, {:.1} GB of memory, {:.1} GB of it free",
                gigabytes(total),
                gigabytes(free)
            ),
            None => name,
        }
    }

    /// As Burn's environment variable has it.
    fn burns_name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            #[cfg(feature = "wgpu")]
            Self::Vulkan => "wgpu",
            #[cfg(all(feature = "vulkan", not(feature = "wgpu")))]
            Self::Vulkan => "vulkan",
            #[cfg(feature = "cuda")]
            Self::Cuda => "cuda",
            #[cfg(feature = "flex")]
            Self::Flex => "flex",
        }
    }

    fn name(self) -> String {
        self.to_possible_value().expect("no variant is skipped").get_name().to_owned()
    }

    /// Bytes in all, and those that are free.
    fn memory(self) -> Option<[u64; 2]> {
        match self {
            #[cfg(feature = "cuda")]
            Self::Cuda => {
                let nvml = nvml()?;
                let memory = nvml.device_by_index(0).ok()?.memory_info().ok()?;
                Some([memory.total, memory.free])
            }
            #[cfg(any(feature = "wgpu", feature = "vulkan"))]
            Self::Vulkan => None,
            _ => {
                let mut system = sysinfo::System::new();
                system.refresh_memory();
                Some([system.total_memory(), system.available_memory()])
            }
        }
    }

    /// The backend's device, once it has answered. To be called once, before there are tensors.
    pub fn open(self) -> Result<Device, String> {
        self.configure();
        // Burn loads an optimizer's state by way of its default device, which need not be there.
        // SAFETY: there is no other thread yet.
        unsafe { env::set_var("BURN_DEVICE", self.burns_name()) };
        // Devices open on first use, and panic where there is no driver or no hardware.
        let probe = move || {
            let device = self.device();
            Tensor::<1>::ones([1], &device).into_scalar::<f32>();
            device
        };
        quietly(probe)
            .map_err(|reason| format!("device {} is not available: {reason}", self.name()))
    }

    /// Settings for a run of minutes, on a machine that may have few cores.
    fn configure(self) {
        let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
        // Matrix products are tuned on one sample of each kernel, and not against the machine's
        // peaks: to measure those takes longer than the training.
        config.autotune.level = AutotuneLevel::Full;
        config.autotune.bench.min_samples = 1;
        config.autotune.bench.max_samples = 1;
        if self == Self::Cpu {
            // Kernels with barriers get a thread a unit. Where there are fewer cores, such a
            // kernel takes seconds, and its threads, once there, hinder each other for good
            // while they wait for queued kernels. So products are not fused with what follows
            // them, which needs barriers, and a launch waits for the one before: it is profiled.
            config.profiling.logger.level = ProfilingLogLevel::Basic;
            #[cfg(feature = "fusion")]
            burn_cubecl::fusion::remove("Matmul").expect("there are no tensors yet");
        }
        CubeClRuntimeConfig::set(config);
    }

    fn device(self) -> Device {
        match self {
            Self::Cpu => Device::cpu(),
            #[cfg(any(feature = "wgpu", feature = "vulkan"))]
            Self::Vulkan => {
                use burn::backend::{WgpuBackend, WgpuDevice};
                Device::new(WgpuDevice::default().on(WgpuBackend::Vulkan))
            }
            #[cfg(feature = "cuda")]
            Self::Cuda => Device::cuda(0),
            #[cfg(feature = "flex")]
            Self::Flex => Device::flex(),
        }
    }
}

#[cfg(feature = "cuda")]
fn nvml() -> Option<nvml_wrapper::Nvml> {
    nvml_wrapper::Nvml::init().ok()
}

/// Whether there is a GPU to render on, as Linux shows one; elsewhere there mostly is.
#[cfg(any(feature = "wgpu", feature = "vulkan"))]
fn has_render_node() -> bool {
    if !cfg!(target_os = "linux") {
        return true;
    }
    let entries = std::fs::read_dir("/dev/dri").into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("renderD"))
}

/// Runs `function`; where it panics, on whatever thread, returns the beginning of the first
/// panic's message in place of printing it.
fn quietly<T>(function: impl FnOnce() -> T + panic::UnwindSafe) -> Result<T, String> {
    let first = Arc::new(Mutex::new(None));
    let seen = first.clone();
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let message = info.payload_as_str().unwrap_or_default().lines().next().unwrap_or_default();
        let end = message.char_indices().nth(120).map_or(message.len(), |(index, _)| index);
        let more = if end < message.len() { "…" } else { "" };
        seen.lock().unwrap().get_or_insert(format!("{}{more}", &message[..end]));
    }));
    let result = panic::catch_unwind(function);
    panic::set_hook(hook);
    result.map_err(|_| first.lock().unwrap().take().unwrap_or_default())
}
