//! What the composed bodies share: rows, the accumulator, and saying once that no kernel ran.

use burn::{
    backend::{Backend, TensorMetadata, tensor::FloatTensor},
    tensor::{DType, FloatDType, Shape, Slice},
};
use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

/// The element type that sums are taken in: f64 for f64, f32 for all narrower floats.
pub(crate) fn accumulator(dtype: DType) -> FloatDType {
    if dtype == DType::F64 { FloatDType::F64 } else { FloatDType::F32 }
}

/// A tensor's size as (rows, columns): its last `axes` dimensions are columns.
pub(crate) fn matrix(shape: &Shape, axes: usize) -> [usize; 2] {
    let (rows, columns) = shape.split_at(shape.num_dims() - axes);
    [rows.iter().product(), columns.iter().product()]
}

/// `tensor` in the accumulator type, as a matrix of the given size.
pub(crate) fn widen<B: Backend>(
    tensor: FloatTensor<B>,
    accumulator: FloatDType,
    size: [usize; 2],
) -> FloatTensor<B> {
    B::float_reshape(cast::<B>(tensor, accumulator), Shape::from(size))
}

/// Back from [`widen`].
pub(crate) fn narrow<B: Backend>(
    tensor: FloatTensor<B>,
    dtype: DType,
    shape: Shape,
) -> FloatTensor<B> {
    B::float_reshape(cast::<B>(tensor, dtype.into()), shape)
}

fn cast<B: Backend>(tensor: FloatTensor<B>, dtype: FloatDType) -> FloatTensor<B> {
    if tensor.dtype() == dtype.into() { tensor } else { B::float_cast(tensor, dtype) }
}

/// The sum of a matrix over one of its dimensions, which becomes 1: in two steps, so that the error
/// grows with the fourth root of the number of terms and not with its square root.
pub(crate) fn sum<B: Backend>(matrix: FloatTensor<B>, dim: usize) -> FloatTensor<B> {
    let size = matrix.shape().dims::<2>();
    let terms = size[dim];
    let run = terms.isqrt();
    let (runs, whole) = (terms / run, terms - terms % run);
    let part = |matrix, from, to| {
        let mut part = size.map(|size| Slice::from(0..size));
        part[dim] = Slice::from(from..to);
        B::float_slice(matrix, &part)
    };
    let rest = (whole < terms).then(|| B::float_sum_dim(part(matrix.clone(), whole, terms), dim));
    let matrix = if whole < terms { part(matrix, 0, whole) } else { matrix };
    let [mut split, mut summed] = [size.to_vec(), size.to_vec()];
    split.splice(dim..=dim, [runs, run]);
    summed[dim] = 1;
    let sums = B::float_sum_dim(B::float_reshape(matrix, Shape::from(split)), dim + 1);
    let sum = B::float_reshape(B::float_sum_dim(sums, dim), Shape::from(summed));
    match rest {
        Some(rest) => B::float_add(sum, rest),
        None => sum,
    }
}

/// The mean of each of a matrix's rows.
pub(crate) fn row_mean<B: Backend>(matrix: FloatTensor<B>) -> FloatTensor<B> {
    let columns = matrix.shape()[1];
    B::float_div_scalar(sum::<B>(matrix, 1), (columns as f64).into())
}

/// Logs the first time that `op` runs composed on this kind of backend.
pub(crate) fn log_composed<B: Backend>(op: &'static str, device: &B::Device) {
    static SEEN: Mutex<BTreeSet<(&str, String)>> = Mutex::new(BTreeSet::new());
    let backend = B::name(device);
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if seen.insert((op, backend.clone())) {
        log::warn!("{op} has no fused kernel on {backend}: it runs as composed tensor operations");
    }
}
