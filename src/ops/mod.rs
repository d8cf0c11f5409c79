//! The public functions, their checks, and the backend extension traits behind them.

mod add_norm;
mod attention_softmax;
mod check;
pub(crate) mod composed;
mod cross_entropy;
mod execution;
mod layer_norm;
mod norm;
mod norm_options;
mod optional;
mod rms_norm;
mod softmax;

pub use add_norm::*;
pub use attention_softmax::*;
pub(crate) use check::*;
pub(crate) use composed::{accumulator, matrix};
pub use cross_entropy::*;
pub use execution::*;
pub use layer_norm::*;
pub use norm::*;
pub use norm_options::*;
pub use optional::*;
pub use rms_norm::*;
pub use softmax::*;
