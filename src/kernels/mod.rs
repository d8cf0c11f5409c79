//! The CubeCL kernels. Nothing here knows of Burn's tensors or its autodiff graph.

mod column_sum;
mod plan;
mod rms_norm;
mod row;

pub(crate) use plan::vector_width;
pub(crate) use rms_norm::{Backward, Extent, Forward, Types};
pub(crate) use row::Matrix;
