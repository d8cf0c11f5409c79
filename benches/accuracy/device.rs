use burn::tensor::{Device, Tensor};
use std::panic::catch_unwind;

/// The device of that name, tracking gradients, once something has run on it.
pub fn open(name: &str) -> Result<Device, String> {
    let open: fn() -> Device = match name {
        #[cfg(feature = "cuda")]
        "cuda" => || Device::cuda(0),
        #[cfg(feature = "wgpu")]
        "vulkan" => || {
            use burn::backend::{CubeDevice, WgpuDevice, wgpu::WgpuBackend};
            Device::new(CubeDevice::Wgpu(WgpuDevice::default().on(WgpuBackend::Vulkan)))
        },
        #[cfg(feature = "cpu")]
        "cpu" => Device::cpu,
        #[cfg(feature = "flex")]
        "flex" => Device::flex,
        _ => return Err(format!("this build has no device {name}")),
    };
    catch_unwind(move || {
        let device = open();
        Tensor::<1>::ones([1], &device).into_scalar::<f32>();
        device.autodiff()
    })
    .map_err(|_| format!("{name} cannot be opened: its panic is above"))
}
