//! Drop-in modules: the names, fields, records and configs of `burn::nn`, the fused ops inside.

mod layer_norm;
pub mod loss;
mod rms_norm;
pub mod transformer;

pub use layer_norm::*;
pub use rms_norm::*;
