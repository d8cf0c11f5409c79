//! The device under test: `BURN_FUSED_DEVICE` names it (cpu, vulkan, flex, cuda; cpu if unset). Where
//! it does not open, tests are skipped, or fail if `BURN_FUSED_REQUIRED` has it, a list with commas.

use crate::logged;
#[cfg(feature = "wgpu")]
use burn::backend::{WgpuDevice, wgpu::WgpuBackend};
use burn::tensor::{DType, Device, Tensor};
#[cfg(feature = "cubecl-backend")]
use burn_cubecl::CubeDevice;
use std::{
    env,
    io::{self, Write},
    panic::catch_unwind,
    sync::OnceLock,
};

pub fn name() -> String {
    env::var("BURN_FUSED_DEVICE").unwrap_or_else(|_| "cpu".into())
}

/// Whether there is time for the whole product of sizes.
pub fn is_fast() -> bool {
    name() == "cuda"
}

/// Whether compilers leave the order of sums as kernels have it. Mesa's does not, so that two kernels of one
/// formula may round differently.
pub fn keeps_order() -> bool {
    name() != "vulkan"
}

/// Whether it promises the same bits for a view as for its copy, and from run to run.
pub fn keeps_bits() -> bool {
    name() != "flex"
}

/// The device, or `None` after saying why the calling test is skipped.
pub fn open() -> Option<Device> {
    #[cfg(feature = "cubecl-backend")]
    crate::kernels::count();
    static OPENED: OnceLock<Result<Device, String>> = OnceLock::new();
    #[expect(clippy::explicit_write, reason = "a passing test keeps what macros print")]
    let opened = OPENED.get_or_init(|| {
        logged::listen();
        let opened = open_named(&name());
        if let Err(reason) = &opened {
            writeln!(io::stderr(), "all tests are skipped: {reason}").unwrap();
        }
        opened
    });
    match opened {
        Ok(device) => Some(device.clone()),
        Err(reason) if is_required() => panic!("{reason}"),
        Err(_) => None,
    }
}

fn is_required() -> bool {
    let names = env::var("BURN_FUSED_REQUIRED").unwrap_or_default();
    names.split(',').any(|required| required == name())
}

/// Another device than the one under test.
pub struct Another {
    pub device: Device,
    /// Whether it is of the same kind.
    pub alike: bool,
}

/// The second GPU; where there is none, a device of another backend. `None` after saying why there is none.
pub fn another() -> Option<Another> {
    let found = match name().as_str() {
        #[cfg(feature = "cuda")]
        // Opened only where it is: a panic there leaves a lock of Burn's poisoned.
        "cuda" if Device::enumerate(burn::tensor::DeviceType::Cuda).len() > 1 => {
            opened(|| Device::cuda(1)).map(|device| Another { device, alike: true })
        }
        "flex" => open_named("cpu").map(|device| Another { device, alike: false }),
        _ => open_named("flex").map(|device| Another { device, alike: false }),
    };
    found.inspect_err(|reason| println!("skipped: there is no second device: {reason}")).ok()
}

/// Opens a device by its name and runs something on it.
pub fn open_named(name: &str) -> Result<Device, String> {
    let built = |feature| format!("this build is without the feature `{feature}`");
    let open: Option<fn() -> Device> = match name {
        "cpu" => cpu(),
        "vulkan" => vulkan(),
        "flex" => flex(),
        "cuda" => cuda(),
        _ => panic!("BURN_FUSED_DEVICE must be cpu, vulkan, flex or cuda, found {name:?}"),
    };
    let open = open.ok_or_else(|| built(name))?;
    opened(open).map_err(|reason| format!("{name} {reason}"))
}

fn opened(open: fn() -> Device) -> Result<Device, String> {
    let attempt = catch_unwind(|| {
        let device = open();
        Tensor::<1>::ones([1], &device).try_into_data().map(|_| device)
    });
    match attempt {
        Ok(Ok(device)) => Ok(device),
        Ok(Err(error)) => Err(format!("does not run: {error}")),
        Err(_) => Err("cannot be opened: its panic is above".into()),
    }
}

/// The float types that `device` computes in, of those that Burn can hold on a host.
pub fn dtypes(device: &Device) -> Vec<DType> {
    let all = [DType::F32, DType::F16, DType::BF16, DType::F64];
    let (supported, missing): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|dtype| device.supports_dtype(*dtype));
    for dtype in missing {
        println!("skipped: {} does not compute in {dtype:?}", name());
    }
    supported
}

/// The device under test among CubeCL's, if it is one.
#[cfg(feature = "cubecl-backend")]
pub fn cube() -> Option<CubeDevice> {
    match name().as_str() {
        #[cfg(feature = "cpu")]
        "cpu" => Some(CubeDevice::Cpu(Default::default())),
        #[cfg(feature = "wgpu")]
        "vulkan" => Some(vulkan_device()),
        #[cfg(feature = "cuda")]
        "cuda" => Some(CubeDevice::Cuda(Default::default())),
        _ => None,
    }
}

#[cfg(feature = "wgpu")]
fn vulkan_device() -> CubeDevice {
    CubeDevice::Wgpu(WgpuDevice::default().on(WgpuBackend::Vulkan))
}

macro_rules! constructor {
    ($function:ident, $feature:literal, $open:expr) => {
        fn $function() -> Option<fn() -> Device> {
            #[cfg(feature = $feature)]
            return Some(|| $open);
            #[cfg(not(feature = $feature))]
            return None;
        }
    };
}

constructor!(cpu, "cpu", Device::cpu());
constructor!(flex, "flex", Device::flex());
constructor!(cuda, "cuda", Device::cuda(0));
constructor!(vulkan, "wgpu", Device::new(vulkan_device()));
