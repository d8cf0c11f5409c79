//! Rows in memory: where they lie, loading and storing them.

use super::plan::Blueprint;
use cubecl::{prelude::*, server::Handle};

/// A matrix in device memory: rows anywhere, the elements of each next to one another.
pub(crate) struct Matrix {
    pub handle: Handle,
    /// Elements that `handle` spans.
    pub len: usize,
    /// Size and stride, in elements, of the dimensions that rows are counted by, outermost first.
    pub rows: Vec<(usize, usize)>,
}

impl Matrix {
    /// The kernel's arguments for vectors of `width` elements.
    pub(crate) fn args(self, width: usize) -> (BufferArg, RowsLaunch) {
        let (sizes, strides) = (self.rows.iter().map(|(size, _)| *size), &self.rows);
        let rows = RowsLaunch::new(
            sizes.collect::<SequenceArg<usize>>(),
            strides.iter().map(|(_, stride)| stride / width).collect::<SequenceArg<usize>>(),
        );
        // SAFETY: `len` is what the handle spans.
        (unsafe { BufferArg::from_raw_parts(self.handle, self.len) }, rows)
    }
}

/// A buffer that a kernel writes whole.
pub(crate) enum Target {
    /// One of its own.
    New(Handle),
    /// That of the kernel's first argument, which nothing else uses.
    First,
}

impl Target {
    pub(crate) fn arg(self, len: usize) -> BufferArg {
        match self {
            // SAFETY: callers give the length that the buffer was made with.
            Self::New(handle) => unsafe { BufferArg::from_raw_parts(handle, len) },
            Self::First => BufferArg::alias(0, len),
        }
    }
}

/// Where rows lie: strides are counted in vectors.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Rows {
    sizes: Sequence<usize>,
    strides: Sequence<usize>,
}

#[cube]
impl Rows {
    /// The position of a row's first vector.
    pub fn offset(&self, row: usize) -> usize {
        let rank = comptime!(self.sizes.len());
        let mut rest = row;
        let mut offset = 0usize;
        #[unroll]
        for i in 1..rank {
            let dim = comptime!(rank - i);
            let size = *self.sizes.index(dim);
            offset += (rest % size) * *self.strides.index(dim);
            rest /= size;
        }
        offset + rest * *self.strides.index(0usize)
    }
}

/// Whether `column` is one of the row's.
#[cube]
pub(crate) fn is_inside(column: usize, vectors: usize, #[comptime] blueprint: Blueprint) -> bool {
    if comptime!(blueprint.exact) { true.runtime() } else { column < vectors }
}

/// `column`, or the last one of the row where that is past its end.
#[cube]
pub(crate) fn bounded(column: usize, vectors: usize, #[comptime] blueprint: Blueprint) -> usize {
    if comptime!(blueprint.exact) { column } else { usize::min(column, vectors - 1) }
}

/// Loads the vectors of one unit: `start`, then every `lanes`-th. Past the row's end it holds
/// zeros, which add nothing to a sum.
#[cube]
pub(crate) fn load<T: Float, V: Size>(
    source: &[Vector<T, V>],
    row: usize,
    start: usize,
    vectors: usize,
    into: &mut Array<Vector<T, V>>,
    #[comptime] blueprint: Blueprint,
) {
    #[unroll]
    for i in 0..blueprint.held {
        let column = start + i * blueprint.lanes;
        let value = source[row + bounded(column, vectors, blueprint)];
        if comptime!(blueprint.exact) {
            into[i] = value;
        } else {
            into[i] = select(column < vectors, value, Vector::zero());
        }
    }
}

/// Stores where [`load`] read.
#[cube]
pub(crate) fn store<T: Float, V: Size>(
    target: &mut [Vector<T, V>],
    row: usize,
    column: usize,
    vectors: usize,
    value: Vector<T, V>,
    #[comptime] blueprint: Blueprint,
) {
    if is_inside(column, vectors, blueprint) {
        target[row + column] = value;
    }
}
