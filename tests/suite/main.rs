//! The integration tests: one binary, as each links every runtime.
//!
//! `BURN_FUSED_DEVICE` names the device, `BURN_FUSED_SEED` repeats a run's values.
#![cfg(feature = "autodiff")]

mod compare;
mod deliver;
mod device;
mod laws;
mod layout;
mod op;
mod oracle;
mod panics;
mod random;
mod rms_norm;
mod values;
