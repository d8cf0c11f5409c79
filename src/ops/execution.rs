use burn::{
    backend::DispatchDevice,
    tensor::{DType, Device},
};
use core::fmt;

/// How a call runs on its device, and what it promises there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Execution {
    /// The fused kernels, or tensor operations composed to the same formula.
    pub path: Path,
    /// The element type that sums are taken in.
    pub accumulator: DType,
    /// Whether outputs and all gradients are the same bits on every run on one device.
    pub deterministic: bool,
}

/// The way a call takes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Path {
    /// One kernel forward; backward one kernel, and a second where a parameter has a gradient.
    Fused,
    /// Tensor operations composed to the same formula, for the reason given.
    Composed(Reason),
}

/// Why a call does not take the fused path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The backend is not a CubeCL runtime, or its feature is not enabled on this crate.
    NoKernel {
        /// The device asked about.
        device: String,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKernel { device } => write!(f, "there are no kernels for {device}"),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fused => write!(f, "fused"),
            Self::Composed(reason) => write!(f, "composed: {reason}"),
        }
    }
}

impl Execution {
    /// The execution of an op whose input has the given element type.
    pub(crate) fn of(device: &Device, input: DType) -> Self {
        let path = match without_kernels(device.as_dispatch()) {
            None => Path::Fused,
            Some(device) => Path::Composed(Reason::NoKernel { device: format!("{device:?}") }),
        };
        let accumulator = super::accumulator(input).into();
        Self { deterministic: path == Path::Fused, path, accumulator }
    }
}

/// The device, if it is not a CubeCL runtime.
fn without_kernels(device: &DispatchDevice) -> Option<&DispatchDevice> {
    match device {
        #[cfg(feature = "autodiff")]
        DispatchDevice::Autodiff(device) => without_kernels(device),
        #[cfg(feature = "cubecl-backend")]
        DispatchDevice::Cube(_) => None,
        #[allow(unreachable_patterns, reason = "some builds have CubeCL devices only")]
        device => Some(device),
    }
}

/// Whether a device can hold a type that no tensor has there yet and that it [computes in](computes_in): on CubeCL it
/// can, without a second look at the device.
pub(crate) fn holds(device: &Device, dtype: DType) -> bool {
    without_kernels(device.as_dispatch()).is_none() || device.supports_dtype(dtype)
}

/// What an op needs of a device, beside arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Arithmetic,
    Exponentials,
}

/// Whether a device computes in an element type. Burn's own operations, composed, could not either.
pub(crate) fn computes_in(device: &DispatchDevice, dtype: DType, needs: Needs) -> bool {
    match device {
        #[cfg(feature = "autodiff")]
        DispatchDevice::Autodiff(device) => computes_in(device, dtype, needs),
        #[cfg(feature = "cubecl-backend")]
        DispatchDevice::Cube(device) => crate::backends::computes_in(device, dtype, needs),
        #[allow(unreachable_patterns, reason = "some builds have CubeCL devices only")]
        _ => {
            let _ = (dtype, needs);
            true
        }
    }
}
