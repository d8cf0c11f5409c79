//! The integration tests: one binary, as each links every runtime.
//!
//! `BURN_FUSED_DEVICE` names the device, `BURN_FUSED_SEED` repeats a run's values, `BURN_FUSED_CASES` is the
//! number of cases that each property is tried on, `BURN_FUSED_ALL` asks for all combinations (see `pairs`).
#![cfg(feature = "autodiff")]

mod add_norm;
mod attention_softmax;
mod bf16;
mod buffer;
mod cases;
mod compare;
mod cross_entropy;
mod deliver;
mod device;
mod errors;
#[cfg(feature = "cubecl-backend")]
mod hashes;
#[cfg(feature = "cubecl-backend")]
mod kernels;
mod laws;
mod layer_norm;
mod layout;
mod logged;
mod memory;
mod nn;
mod norm_options;
mod numbers;
mod op;
mod oracle;
mod pairs;
mod panics;
mod property;
mod published;
mod random;
#[cfg(feature = "cubecl-backend")]
mod replay;
mod rms_norm;
mod softmax;
mod values;
