//! What a call panics with.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The message that `call` panics with, if it does.
pub fn message<T>(call: impl FnOnce() -> T) -> Option<String> {
    let payload = catch_unwind(AssertUnwindSafe(call)).err()?;
    let message = payload.downcast_ref::<String>().cloned();
    message.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string))
}
