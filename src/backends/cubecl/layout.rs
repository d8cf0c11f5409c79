//! Tensors as the kernels read and write them.

use super::{as_bits, empty_beside};
use crate::kernels::{Matrix, Output, Target};
use burn::tensor::{DType, StreamId};
use burn_cubecl::{kernel::into_contiguous, ops::numeric::empty_device_dtype, tensor::CubeTensor};
use cubecl::server::Handle;

/// How kernels read a tensor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// Trailing dimensions that adjoin each other.
    pub axes: usize,
    /// Elements of a vector.
    pub width: usize,
    /// Whether the elements of vectors that are not aligned are loaded one by one.
    pub piecewise: bool,
}

/// The tensor as rows of its last dimensions.
pub(super) fn rows(tensor: CubeTensor, reading: Reading) -> Matrix {
    let split = tensor.meta.num_dims() - reading.axes;
    matrix(readable(tensor, reading), split, reading)
}

/// Where a kernel writes rows: a tensor, and how.
pub(super) struct Writing {
    pub tensor: CubeTensor,
    pub output: Output,
}

impl Writing {
    /// One of the shape of `tensor` and the type `dtype`, which is [`readable`] as it is, and the kernel's buffer at
    /// `position`: that itself where it has the type, is of this stream, nothing else uses it and rows do not overlap.
    /// Rows are counted by its first `leading` dimensions; `span` gives the elements from the first of one to past its
    /// last.
    pub(super) fn over_or_new(
        tensor: &CubeTensor,
        dtype: DType,
        position: usize,
        reading: Reading,
        leading: usize,
        span: impl Fn(&CubeTensor) -> Option<usize>,
    ) -> Self {
        Self::over(tensor, dtype, position, reading, leading, &span)
            .unwrap_or_else(|| Self::new(tensor, dtype, reading, leading, span))
    }

    /// As [`over_or_new`](Self::over_or_new), over the tensor if that can be.
    pub(super) fn over(
        tensor: &CubeTensor,
        dtype: DType,
        position: usize,
        reading: Reading,
        leading: usize,
        span: impl Fn(&CubeTensor) -> Option<usize>,
    ) -> Option<Self> {
        let rows = rows_of(tensor, leading);
        // A stream that reads the buffer waits for the one that it was allocated in, and for no other
        // (docs/upstream/stream-wait.md), so that another thread's is not to be written.
        let of_this_stream = tensor.handle.stream == StreamId::current();
        let usable = tensor.dtype == dtype && tensor.can_mut() && of_this_stream;
        let stride = stride_apart(&rows, span(tensor)).filter(|_| usable)?;
        let aligned = is_aligned(tensor, &rows, reading.width);
        let output = Output { target: Target::Argument(position), stride, aligned };
        Some(Self { tensor: tensor.clone(), output })
    }

    /// As [`over_or_new`](Self::over_or_new), new.
    pub(super) fn new(
        tensor: &CubeTensor,
        dtype: DType,
        reading: Reading,
        leading: usize,
        span: impl Fn(&CubeTensor) -> Option<usize>,
    ) -> Self {
        let shape = tensor.meta.shape().clone();
        // As Burn's own operations lay their results out, the last dimension aligned where the device
        // prefers that, unless other dimensions must adjoin it.
        let tensor = if reading.axes == 1 {
            empty_device_dtype(tensor.client.clone(), tensor.device.clone(), shape, dtype)
        } else {
            empty_beside(tensor, shape, dtype)
        };
        let rows = rows_of(&tensor, leading);
        let stride = stride_apart(&rows, span(&tensor)).expect("a new tensor's rows are apart");
        let target = Target::New(tensor.handle.clone());
        let aligned = is_aligned(&tensor, &rows, reading.width);
        Self { tensor, output: Output { target, stride, aligned } }
    }
}

/// Elements from one of the `rows` to the next, which each take `span`, if they do not overlap.
fn stride_apart(rows: &[(usize, usize)], span: Option<usize>) -> Option<usize> {
    match *rows {
        [(1, _)] => span,
        [(_, stride)] => span.filter(|span| stride >= *span).map(|_| stride),
        _ => None,
    }
}

/// A contiguous parameter, aligned for vectors of `width`.
pub(super) fn parameter(tensor: CubeTensor, width: usize) -> Handle {
    let axes = tensor.meta.num_dims();
    readable(tensor, Reading { axes, width, piecewise: false }).handle
}

/// A [`readable`] tensor whose rows are counted by its first `leading` dimensions.
pub(super) fn matrix(tensor: CubeTensor, leading: usize, reading: Reading) -> Matrix {
    let Reading { width, piecewise, .. } = reading;
    let rows = rows_of(&tensor, leading);
    let size = tensor.dtype.size();
    let len = tensor.handle.size_in_used() as usize / size;
    // Elements up to the end of the buffer, which a tensor that is a part of it may not reach.
    let behind = (tensor.handle.size() - tensor.handle.offset_start.unwrap_or(0)) as usize / size;
    let row: usize = tensor.meta.shape().iter().skip(leading).product();
    let last: usize = rows.iter().map(|(size, stride)| (size - 1) * stride).sum();
    let room = last + row.next_multiple_of(width) <= behind;
    let aligned = !piecewise || room && is_aligned(&tensor, &rows, width);
    Matrix { handle: tensor.handle, len, rows, aligned }
}

/// Whether vectors of `width` are aligned in all `rows` of the tensor.
fn is_aligned(tensor: &CubeTensor, rows: &[(usize, usize)], width: usize) -> bool {
    let vector = (width * tensor.dtype.size()) as u64;
    tensor.handle.offset_start.unwrap_or(0).is_multiple_of(vector)
        && rows.iter().all(|(_, stride)| stride.is_multiple_of(width))
}

/// Sizes and strides that the rows of a tensor are counted by.
fn rows_of(tensor: &CubeTensor, leading: usize) -> Vec<(usize, usize)> {
    let dims = tensor.meta.shape().iter().zip(tensor.meta.strides().iter()).take(leading);
    collapsed(dims.map(|(size, stride)| (*size, *stride)))
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

/// The tensor, copied only where the kernels cannot read it as it lies.
pub(super) fn readable(tensor: CubeTensor, reading: Reading) -> CubeTensor {
    if is_readable(&tensor, reading) {
        return tensor;
    }
    let dtype = tensor.dtype;
    let copied = CubeTensor { dtype: as_bits(dtype, &tensor.client), ..tensor };
    let copied = if copied.is_contiguous() { copied.copy() } else { copied };
    CubeTensor { dtype, ..into_contiguous(copied) }
}

fn is_readable(tensor: &CubeTensor, reading: Reading) -> bool {
    let (shape, strides) = (tensor.meta.shape(), tensor.meta.strides());
    let split = shape.num_dims() - reading.axes;
    let mut expected = 1;
    let columns = shape.iter().zip(strides.iter()).skip(split).rev().all(|(&size, &stride)| {
        let adjoins = size == 1 || stride == expected;
        expected *= size;
        adjoins
    });
    !tensor.meta.is_tiled()
        && columns
        && (reading.piecewise || is_aligned(tensor, &rows_of(tensor, split), reading.width))
}
