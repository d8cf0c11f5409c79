//! The extension traits for each backend: kernels on CubeCL, the composed bodies elsewhere.

#[cfg(feature = "cubecl-backend")]
mod cubecl;

#[cfg(feature = "cubecl-backend")]
pub(crate) use cubecl::computes_in;

/// The composed bodies for a backend.
#[allow(unused_macros, reason = "some builds have CubeCL devices only")]
macro_rules! composed {
    ($backend:ty) => {
        impl crate::ops::AttentionSoftmaxOps for $backend {}
        impl crate::ops::CrossEntropyOps for $backend {}
        impl crate::ops::NormOps for $backend {}
        impl crate::ops::SoftmaxOps for $backend {}
    };
}

#[cfg(feature = "flex")]
composed!(burn::backend::Flex);
#[cfg(feature = "ndarray")]
composed!(burn::backend::NdArray);
#[cfg(feature = "tch")]
composed!(burn::backend::LibTorch);
#[cfg(feature = "remote")]
composed!(burn::backend::Remote);
#[cfg(feature = "capture")]
composed!(burn::backend::Capture);
