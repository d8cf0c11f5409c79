//! Matrices in device memory, as kernels are given them.

use super::row::{EvenRowsLaunch, RowsLaunch};
use cubecl::{prelude::*, server::Handle};

/// A matrix in device memory: rows anywhere, the elements of each next to one another.
#[derive(Clone)]
pub(crate) struct Matrix {
    pub handle: Handle,
    /// Elements that `handle` spans.
    pub len: usize,
    /// Size and stride, in elements, of the dimensions that rows are counted by, outermost first.
    pub rows: Vec<(usize, usize)>,
    /// Whether all vectors are aligned, and whole ones can be loaded where rows end.
    pub aligned: bool,
}

impl Matrix {
    /// The kernel's arguments for vectors of `width` elements.
    pub(crate) fn args(self, width: usize) -> (BufferArg, RowsLaunch) {
        let unit = if self.aligned { width } else { 1 };
        let (sizes, strides) = (self.rows.iter().map(|(size, _)| *size), &self.rows);
        let rows = RowsLaunch::new(
            sizes.collect::<SequenceArg<usize>>(),
            strides.iter().map(|(_, stride)| stride / unit).collect::<SequenceArg<usize>>(),
            self.aligned,
        );
        // SAFETY: `len` is what the handle spans.
        (unsafe { BufferArg::from_raw_parts(self.handle, self.len) }, rows)
    }
}

/// Rows that a kernel writes whole.
pub(crate) struct Output {
    pub target: Target,
    /// Elements from one row to the next.
    pub stride: usize,
    /// Whether all vectors are aligned.
    pub aligned: bool,
}

impl Output {
    /// Elements that `rows` rows span.
    pub(crate) fn len(&self, rows: usize) -> usize {
        rows * self.stride
    }

    /// The kernel's arguments for `rows` rows of vectors of `width` elements.
    pub(crate) fn args(self, rows: usize, width: usize) -> (BufferArg, EvenRowsLaunch) {
        let len = self.len(rows);
        let unit = if self.aligned { width } else { 1 };
        (self.target.arg(len), EvenRowsLaunch::new(self.stride / unit, self.aligned))
    }
}

/// A buffer that a kernel writes.
pub(crate) enum Target {
    /// One of its own.
    New(Handle),
    /// That of one of the kernel's arguments, which nothing else uses: its position among buffers.
    Argument(usize),
}

impl Target {
    fn arg(self, len: usize) -> BufferArg {
        match self {
            // SAFETY: callers give the length that the buffer was made with.
            Self::New(handle) => unsafe { BufferArg::from_raw_parts(handle, len) },
            Self::Argument(position) => BufferArg::alias(position, len),
        }
    }
}
