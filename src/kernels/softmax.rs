//! Softmax, `y = exp(x − m) / s` with `m = max(x)` and `s = Σ exp(x − m)`, its logarithm
//! `y = x − m − ln(s)`, and their gradients `dx = y·(dy − Σ dy·y)` and `dx = dy − exp(y)·Σ dy`.
//!
//! Along the last dimension a row is a team's, as for the norms ([`rows`]); along another, units next
//! to one another have columns next to one another ([`columns`]).

pub(crate) mod attention;
mod columns;
pub(super) mod exponentials;
mod rows;
pub(super) mod totals;

use super::{
    matrix::{Matrix, Output},
    plan::Hardware,
};
use cubecl::{client::Client, ir::ElemType};

/// What is reduced: `[outer, length, inner]` along its middle dimension.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub outer: usize,
    pub length: usize,
    pub inner: usize,
    /// Elements that are loaded at once: along the last dimension.
    pub width: usize,
    /// Where.
    pub hardware: Hardware,
}

/// The element types of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Types {
    pub x: ElemType,
    pub accumulator: ElemType,
}

/// An input: where the `outer` dimensions lie, and how far apart elements of a row are.
pub(crate) struct Input {
    pub matrix: Matrix,
    pub stride: usize,
}

/// An output, likewise.
pub(crate) struct Written {
    pub rows: Output,
    pub stride: usize,
}

/// A forward pass.
pub(crate) struct Forward {
    pub extent: Extent,
    pub types: Types,
    pub log: bool,
    pub x: Input,
    pub y: Written,
}

impl Forward {
    pub(crate) fn launch(self, client: &Client) {
        if self.extent.inner == 1 {
            rows::forward(self, client)
        } else {
            columns::forward(self, client)
        }
    }
}

/// A backward pass.
pub(crate) struct Backward {
    pub extent: Extent,
    pub types: Types,
    pub log: bool,
    pub dy: Input,
    pub y: Input,
    pub dx: Written,
}

impl Backward {
    pub(crate) fn launch(self, client: &Client) {
        if self.extent.inner == 1 {
            rows::backward(self, None, client)
        } else {
            columns::backward(self, client)
        }
    }

    /// The gradient along the last dimension, times `scale`.
    pub(crate) fn launch_scaled(self, scale: f64, client: &Client) {
        assert_eq!(self.extent.inner, 1, "rows lie along the last dimension");
        rows::backward(self, Some(scale).filter(|scale| *scale != 1.0), client)
    }
}
