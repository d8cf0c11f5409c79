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
pub use ops::{rms_norm, rms_norm_execution, try_rms_norm};
