//! RMSNorm: `y = x·r·γ` with `r = 1 / sqrt(mean(x²) + ε)`, and its gradients
//! `dx = r·(γ·dy − x̂·mean(γ·dy·x̂))`, `dγ = Σ_rows dy·x̂`, with `x̂ = x·r`.

mod backward;
mod forward;

pub(crate) use backward::Backward;
pub(crate) use forward::Forward;

use cubecl::ir::ElemType;

/// The element types of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Types {
    pub x: ElemType,
    pub gamma: ElemType,
    pub accumulator: ElemType,
}

/// The matrix of a call: rows are normalised in vectors of `width` elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub rows: usize,
    pub columns: usize,
    pub width: usize,
}
