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
    /// The CubeCL runtime cannot compute in this element type.
    DType {
        /// The type of the input or a parameter, or the accumulator that it needs.
        dtype: DType,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKernel { device } => write!(f, "there are no kernels for {device}"),
            Self::DType { dtype } => write!(f, "the device does not compute in {dtype:?}"),
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
    /// The execution of an op whose input and parameters have the given element types.
    pub(crate) fn of(device: &Device, input: DType, parameters: &[DType]) -> Self {
        let accumulator = super::accumulator(input).into();
        let path = match unsupported(device.as_dispatch(), input, parameters) {
            None => Path::Fused,
            Some(reason) => Path::Composed(reason),
        };
        Self { deterministic: path == Path::Fused, path, accumulator }
    }
}

fn unsupported(device: &DispatchDevice, input: DType, parameters: &[DType]) -> Option<Reason> {
    match device {
        #[cfg(feature = "autodiff")]
        DispatchDevice::Autodiff(device) => unsupported(device, input, parameters),
        #[cfg(feature = "cubecl-backend")]
        DispatchDevice::Cube(device) => {
            crate::backends::unsupported_dtype(device, input, parameters)
                .map(|dtype| Reason::DType { dtype })
        }
        #[allow(unreachable_patterns, reason = "some builds have CubeCL devices only")]
        device => {
            let _ = (input, parameters);
            Some(Reason::NoKernel { device: format!("{device:?}") })
        }
    }
}
