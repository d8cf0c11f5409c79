//! The integration tests: one binary, as each links every runtime.
//!
//! `BURN_FUSED_DEVICE` names the device, `BURN_FUSED_SEED` repeats a run's values.
#![cfg(feature = "autodiff")]

mod bf16;
mod buffer;
mod cases;
mod compare;
mod deliver;
mod device;
mod errors;
mod laws;
mod layer_norm;
mod layout;
mod nn;
mod numbers;
mod op;
mod oracle;
mod panics;
mod published;
mod random;
mod rms_norm;
mod softmax;
mod values;
