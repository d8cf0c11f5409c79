//! The extension traits for each backend: kernels on CubeCL, the composed bodies elsewhere.

#[cfg(feature = "cubecl-backend")]
mod cubecl;

#[cfg(feature = "cubecl-backend")]
pub(crate) use cubecl::unsupported_dtype;

#[cfg(feature = "flex")]
impl crate::ops::RmsNormOps for burn::backend::Flex {}
#[cfg(feature = "ndarray")]
impl crate::ops::RmsNormOps for burn::backend::NdArray {}
#[cfg(feature = "tch")]
impl crate::ops::RmsNormOps for burn::backend::LibTorch {}
#[cfg(feature = "remote")]
impl crate::ops::RmsNormOps for burn::backend::Remote {}
#[cfg(feature = "capture")]
impl crate::ops::RmsNormOps for burn::backend::Capture {}
