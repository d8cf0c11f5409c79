//! Tensors as the kernels read and write them.

use super::empty_beside;
use crate::kernels::{Matrix, Target};
use burn_cubecl::{kernel::into_contiguous, tensor::CubeTensor};
use cubecl::server::Handle;

/// The tensor as rows of its last `axes` dimensions, in vectors of `width`.
pub(super) fn rows(tensor: CubeTensor, axes: usize, width: usize) -> Matrix {
    let split = tensor.meta.num_dims() - axes;
    matrix(readable(tensor, axes, width), split)
}

/// The tensor, [`readable`], and one of the same shape and type for a kernel to write: over the first
/// where nothing else uses that.
pub(super) fn readable_and_target(
    tensor: CubeTensor,
    axes: usize,
    width: usize,
) -> (CubeTensor, CubeTensor, Target) {
    let tensor = readable(tensor, axes, width);
    if tensor.can_mut() && tensor.is_contiguous() {
        (tensor.clone(), tensor, Target::First)
    } else {
        let output = empty_beside(&tensor, tensor.meta.shape().clone(), tensor.dtype);
        let target = Target::New(output.handle.clone());
        (tensor, output, target)
    }
}

/// A contiguous parameter, aligned for vectors of `width`.
pub(super) fn parameter(tensor: CubeTensor, width: usize) -> Handle {
    let axes = tensor.meta.num_dims();
    readable(tensor, axes, width).handle
}

/// A tensor whose rows are counted by its first `leading` dimensions.
pub(super) fn matrix(tensor: CubeTensor, leading: usize) -> Matrix {
    let dims = tensor.meta.shape().iter().zip(tensor.meta.strides().iter()).take(leading);
    let rows = collapsed(dims.map(|(size, stride)| (*size, *stride)));
    let len = tensor.handle.size_in_used() as usize / tensor.dtype.size();
    Matrix { handle: tensor.handle, len, rows }
}

/// Sizes and strides with those dimensions made one that lie in one another; at least one.
fn collapsed(dims: impl Iterator<Item = (usize, usize)>) -> Vec<(usize, usize)> {
    let mut collapsed: Vec<(usize, usize)> = Vec::new();
    for (size, stride) in dims.filter(|(size, _)| *size != 1) {
        match collapsed.last_mut() {
            Some(last) if last.1 == size * stride => *last = (last.0 * size, stride),
            _ => collapsed.push((size, stride)),
        }
    }
    if collapsed.is_empty() {
        collapsed.push((1, 0));
    }
    collapsed
}

/// The tensor, copied only where the kernels cannot read it as it lies: its last `axes` dimensions
/// apart, or vectors of `width` that would not be aligned.
pub(super) fn readable(tensor: CubeTensor, axes: usize, width: usize) -> CubeTensor {
    if is_readable(&tensor, axes, width) {
        return tensor;
    }
    let tensor = if tensor.is_contiguous() { tensor.copy() } else { tensor };
    into_contiguous(tensor)
}

fn is_readable(tensor: &CubeTensor, axes: usize, width: usize) -> bool {
    let (shape, strides) = (tensor.meta.shape(), tensor.meta.strides());
    let split = shape.num_dims() - axes;
    let mut expected = 1;
    let columns = shape.iter().zip(strides.iter()).skip(split).rev().all(|(&size, &stride)| {
        let adjoins = size == 1 || stride == expected;
        expected *= size;
        adjoins
    });
    let vector = (width * tensor.dtype.size()) as u64;
    !tensor.meta.is_tiled()
        && columns
        && strides.iter().take(split).all(|stride| stride.is_multiple_of(width))
        && tensor.handle.offset_start.unwrap_or(0).is_multiple_of(vector)
}
