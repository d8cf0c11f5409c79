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

/// The sum over a matrix's rows, shape `[1, columns]`, in two steps, so that the error grows with
/// the fourth root of the number of rows and not with its square root.
pub(crate) fn sum_rows<B: Backend>(matrix: FloatTensor<B>) -> FloatTensor<B> {
    let [rows, columns] = matrix.shape().dims();
    let run = rows.isqrt();
    let whole = rows - rows % run;
    let rest = (whole < rows).then(|| {
        let rest = [Slice::from(whole..rows), Slice::from(0..columns)];
        B::float_sum_dim(B::float_slice(matrix.clone(), &rest), 0)
    });
    let runs = B::float_slice(matrix, &[Slice::from(0..whole), Slice::from(0..columns)]);
    let runs = B::float_reshape(runs, Shape::new([whole / run, run, columns]));
    let sum = B::float_sum_dim(B::float_sum_dim(runs, 1), 0);
    let sum = B::float_reshape(sum, Shape::new([1, columns]));
    match rest {
        Some(rest) => B::float_add(sum, rest),
        None => sum,
    }
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
