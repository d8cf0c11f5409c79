//! RMSNorm and LayerNorm: `y = x̂·γ + β` with `x̂ = (x − μ)·r`, and their gradients
//! `dx = r·(dŷ − mean(dŷ) − x̂·mean(dŷ·x̂))` with `dŷ = γ·dy`, `dγ = Σ_rows dy·x̂`, `dβ = Σ_rows dy`.
//!
//! LayerNorm has `μ = mean(x)` and `r = 1 / sqrt(mean((x − μ)²) + ε)`. RMSNorm has no μ, so
//! `r = 1 / sqrt(mean(x²) + ε)`, and no `mean(dŷ)` in `dx`. x may be a sum, which is written as well; then
//! `dx` has in it what reaches the sum from elsewhere.

mod backward;
mod forward;
mod statistics;

pub(crate) use backward::{Backward, DY, ELSEWHERE};
pub(crate) use forward::{Forward, RESIDUAL, Residual, X};

use super::{
    plan::{Hardware, Op},
    row::LengthLaunch,
};
use cubecl::ir::ElemType;

/// What plans know the norm by.
fn op(centered: bool) -> Op {
    if centered { Op::LayerNorm } else { Op::RmsNorm }
}

/// The element types of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Types {
    pub x: ElemType,
    pub gamma: ElemType,
    pub beta: ElemType,
    pub accumulator: ElemType,
}

/// The matrix of a call, whose rows are normalised in vectors of `width` elements, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub rows: usize,
    pub columns: usize,
    pub width: usize,
    pub hardware: Hardware,
}

impl Extent {
    fn length(&self) -> LengthLaunch {
        LengthLaunch::of(self.columns, self.width)
    }
}
