use burn::tensor::DType;
use thiserror::Error;

/// Why a call was refused. Every check runs before anything is launched or recorded.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum FusedError {
    /// An argument's shape does not fit the input's.
    #[error("{op}: `{argument}` must have the shape {expected:?}, found {found:?}")]
    Shape {
        /// The function called.
        op: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// The shape that the other arguments ask for.
        expected: Vec<usize>,
        /// The shape given.
        found: Vec<usize>,
    },
    /// An argument's shape does not broadcast to the input's.
    #[error(
        "{op}: each dimension of `{argument}` must be that of {expected:?} or 1, found {found:?}"
    )]
    Broadcast {
        /// The function called.
        op: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// The input's shape.
        expected: Vec<usize>,
        /// The shape given.
        found: Vec<usize>,
    },
    /// An argument's rank is out of range.
    #[error("{op}: `{argument}` must have a rank from 1 to {max}, found {found}")]
    Rank {
        /// The function called.
        op: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// The largest rank allowed: the input's.
        max: usize,
        /// The rank given.
        found: usize,
    },
    /// More dimensions to normalise than gamma and beta have, or none.
    #[error("{op}: `axes` must be from 1 to {max}, found {found}")]
    Axes {
        /// The function called.
        op: &'static str,
        /// The rank of gamma and beta.
        max: usize,
        /// The number given.
        found: usize,
    },
    /// A dimension that the input does not have.
    #[error("{op}: `dim` must be from -{rank} to {rank} - 1, found {found}")]
    Dim {
        /// The function called.
        op: &'static str,
        /// The input's rank.
        rank: usize,
        /// The dimension given.
        found: isize,
    },
    /// The rows to normalise have no elements.
    #[error(
        "{op}: `{argument}` must have at least one element in a row, found the shape {found:?}"
    )]
    EmptyRows {
        /// The function called.
        op: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// The input's shape.
        found: Vec<usize>,
    },
    /// An argument's element type is not a plain float.
    #[error("{op}: `{argument}` must be f16, bf16, flex32, f32 or f64, found {found:?}")]
    DType {
        /// The function called.
        op: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// The element type given.
        found: DType,
    },
    /// An argument has another element type than the input.
    #[error("{op}: `{argument}` must be {expected:?}, as the input is, found {found:?}")]
    Mixed {
        /// The function called.
        op: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// The input's element type.
        expected: DType,
        /// The element type given.
        found: DType,
    },
    /// The argument's device does not compute in its element type, or has no exponential in it.
    #[error(
        "{op}: `{argument}` is {found:?}, in which {device} does not compute this; cast it to a type that it has, as f32 or i32"
    )]
    Unsupported {
        /// The function called.
        op: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// Its device.
        device: String,
        /// The element type given.
        found: DType,
    },
    /// An argument lies on another device than the input.
    #[error("{op}: `{argument}` must be on the input's device {expected}, found {found}")]
    Device {
        /// The function called.
        op: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// The input's device.
        expected: String,
        /// The argument's device.
        found: String,
    },
    /// Label smoothing is not a part of one.
    #[error("{op}: `label_smoothing` must be from 0 to 1, found {found}")]
    Smoothing {
        /// The function called.
        op: &'static str,
        /// The value given.
        found: f64,
    },
    /// The scale is infinite or NaN, or so in the type that sums are taken in.
    #[error("{op}: `scale` must be finite, found {found}")]
    Scale {
        /// The function called.
        op: &'static str,
        /// The value given.
        found: f64,
    },
    /// Epsilon is negative, infinite or NaN.
    #[error("{op}: `epsilon` must be finite and not negative, found {found}")]
    Epsilon {
        /// The function called.
        op: &'static str,
        /// The value given.
        found: f64,
    },
}
