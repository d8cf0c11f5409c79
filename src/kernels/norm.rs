//! RMSNorm and LayerNorm: `y = x̂·γ + β` with `x̂ = (x − μ)·r`, and their gradients
//! `dx = r·(dŷ − mean(dŷ) − x̂·mean(dŷ·x̂))` with `dŷ = γ·dy`, `dγ = Σ_rows dy·x̂`, `dβ = Σ_rows dy`.
//!
//! LayerNorm has `μ = mean(x)` and `r = 1 / sqrt(mean((x − μ)²) + ε)`. RMSNorm has no μ, so
//! `r = 1 / sqrt(mean(x²) + ε)`, and no `mean(dŷ)` in `dx`. γ may be kept less 1. x may be a sum, which is written as well; then
//! `dx` has in it what reaches the sum from elsewhere.

mod backward;
mod forward;
mod head;
mod statistics;

pub(crate) use backward::{Backward, DY, ELSEWHERE};
pub(crate) use forward::{Forward, RESIDUAL, Residual, X};

use super::{
    plan::{Hardware, Op},
    row::LengthLaunch,
    stored::widened,
};
use cubecl::{ir::ElemType, prelude::*};
use statistics::Formula;

/// What plans know the norm by.
fn op(centered: bool) -> Op {
    if centered { Op::LayerNorm } else { Op::RmsNorm }
}

/// The element types of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Types {
    pub x: ElemType,
    pub y: ElemType,
    pub gamma: ElemType,
    pub beta: ElemType,
    pub accumulator: ElemType,
}

/// The matrix of a call, whose rows are normalised in vectors of `width` elements, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub rows: usize,
    pub columns: usize,
    /// Rows that have parameters of their own, in turn: 1 where all rows share them.
    pub heads: usize,
    pub width: usize,
    pub hardware: Hardware,
}

impl Extent {
    /// The kernels' argument.
    fn heads(&self) -> Option<usize> {
        Some(self.heads).filter(|heads| *heads > 1)
    }

    fn length(&self) -> LengthLaunch {
        LengthLaunch::of(self.columns, self.width)
    }
}

/// What gamma multiplies by.
#[cube]
fn factor<G: Numeric, A: Float, V: Size>(
    gamma: Vector<G, V>,
    #[comptime] formula: Formula,
) -> Vector<A, V> {
    let gamma = widened::<G, A, V>(gamma);
    if comptime!(formula.zero_centered_gamma) { gamma + Vector::new(A::new(1.0)) } else { gamma }
}
