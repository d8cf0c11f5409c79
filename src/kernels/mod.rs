//! The CubeCL kernels. Nothing here knows of Burn's tensors or its autodiff graph.

mod column_sum;
pub(crate) mod norm;
mod plan;
mod row;
pub(crate) mod softmax;
mod team;

pub(crate) use plan::{Hardware, vector_width, vector_width_for_lengths};
pub(crate) use row::{Matrix, Target};
