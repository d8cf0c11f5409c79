//! The extension traits for each backend: kernels on CubeCL, the composed bodies elsewhere.

#[cfg(feature = "cubecl-backend")]
mod cubecl;

#[cfg(feature = "cubecl-backend")]
pub(crate) use cubecl::unsupported_dtype;

use crate::ops::RmsNormOps;

#[cfg(feature = "flex")]
impl RmsNormOps for burn::backend::Flex {}
#[cfg(feature = "ndarray")]
impl RmsNormOps for burn::backend::NdArray {}
#[cfg(feature = "tch")]
impl RmsNormOps for burn::backend::LibTorch {}
#[cfg(feature = "remote")]
impl RmsNormOps for burn::backend::Remote {}
#[cfg(feature = "capture")]
impl RmsNormOps for burn::backend::Capture {}
