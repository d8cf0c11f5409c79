//! The public functions, their checks, and the backend extension traits behind them.

mod check;
mod composed;
mod execution;
mod optional;
mod rms_norm;

pub(crate) use check::*;
pub(crate) use composed::*;
pub use execution::*;
pub use optional::*;
pub use rms_norm::*;
