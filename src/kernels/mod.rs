//! The CubeCL kernels. Nothing here knows of Burn's tensors or its autodiff graph.

mod ahead;
mod column_sum;
pub(crate) mod cross_entropy;
mod matrix;
pub(crate) mod norm;
mod plan;
mod row;
pub(crate) mod softmax;
mod source;
mod stored;
mod sums;
mod team;

pub(crate) use column_sum::column_sum;
pub(crate) use matrix::{Matrix, Output, Target};
pub(crate) use plan::{
    Hardware, column_width, dividing_width, vector_width, vector_width_for_lengths,
};
pub(crate) use stored::stored;
