#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
#![cfg_attr(any(feature = "ndarray", feature = "tch"), allow(deprecated))]

mod backends;
#[cfg(feature = "autodiff")]
mod backward;
mod error;
#[cfg(feature = "cubecl-backend")]
mod kernels;
pub mod nn;
pub mod ops;

pub use error::FusedError;
pub use ops::{
    AttentionSoftmaxOptions, CrossEntropyOptions, NormOptions, add_layer_norm, add_rms_norm,
    attention_softmax, attention_softmax_execution, cross_entropy, cross_entropy_execution,
    layer_norm, layer_norm_execution, log_softmax, log_softmax_execution, rms_norm,
    rms_norm_execution, softmax, softmax_execution, try_add_layer_norm, try_add_rms_norm,
    try_attention_softmax, try_cross_entropy, try_layer_norm, try_log_softmax, try_rms_norm,
    try_softmax,
};
