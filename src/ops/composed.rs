//! The ops composed of Burn's tensor operations, and what their bodies share: the accumulator, sums,
//! and saying once that no kernel ran.

mod attention_softmax;
mod cross_entropy;
mod norm;
mod softmax;

pub(crate) use attention_softmax::{attention_softmax, attention_softmax_backward};
pub(crate) use cross_entropy::{cross_entropy, cross_entropy_backward};
pub(crate) use norm::{norm_backward, norm_forward};
pub(crate) use softmax::{softmax, softmax_backward};

use burn::{
    backend::{Backend, TensorMetadata, tensor::FloatTensor},
    tensor::{BoolDType, DType, FloatDType, Shape, Slice},
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

pub(crate) fn cast<B: Backend>(tensor: FloatTensor<B>, dtype: FloatDType) -> FloatTensor<B> {
    if tensor.dtype() == dtype.into() { tensor } else { B::float_cast(tensor, dtype) }
}

/// The sum over a dimension that is not empty, which becomes 1: of groups, of their sums, and so on,
/// so that the error grows with the logarithm of the number of terms.
pub(crate) fn sum<B: Backend>(mut tensor: FloatTensor<B>, dim: usize) -> FloatTensor<B> {
    const GROUP: usize = 16;
    loop {
        let size = tensor.shape().to_vec();
        let terms = size[dim];
        if terms <= GROUP {
            return B::float_sum_dim(tensor, dim);
        }
        let whole = terms - terms % GROUP;
        let part = |from, to| {
            let mut part: Vec<_> = size.iter().map(|size| Slice::from(0..*size)).collect();
            part[dim] = Slice::from(from..to);
            B::float_slice(tensor.clone(), &part)
        };
        let [mut split, mut summed] = [size.clone(), size.clone()];
        split.splice(dim..=dim, [whole / GROUP, GROUP]);
        summed[dim] = whole / GROUP;
        let groups = B::float_reshape(part(0, whole), Shape::from(split));
        let sums = B::float_reshape(B::float_sum_dim(groups, dim + 1), Shape::from(summed));
        tensor = if whole < terms {
            B::float_cat(vec![sums, B::float_sum_dim(part(whole, terms), dim)], dim)
        } else {
            sums
        };
    }
}

/// The type of a device's booleans.
pub(crate) fn bools<B: Backend>(device: &B::Device) -> BoolDType {
    burn::backend::get_device_settings::<B>(device).bool_dtype
}

/// The mean of each of a matrix's rows.
pub(crate) fn row_mean<B: Backend>(matrix: FloatTensor<B>) -> FloatTensor<B> {
    let columns = matrix.shape()[1];
    B::float_div_scalar(sum::<B>(matrix, 1), (columns as f64).into())
}

/// Logs the first time that `op` runs composed on this kind of backend in this type.
pub(crate) fn log_composed<B: Backend>(op: &'static str, device: &B::Device, dtype: DType) {
    static SEEN: Mutex<BTreeSet<(&str, String, &str)>> = Mutex::new(BTreeSet::new());
    let backend = B::name(device);
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if seen.insert((op, backend.clone(), dtype.name())) {
        log::warn!(
            "{op} has no fused kernel for {dtype:?} on {backend}: it runs as composed tensor \
             operations"
        );
    }
}
