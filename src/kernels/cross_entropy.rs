//! Cross-entropy of rows of logits `x` with the class `t` of each, without their probabilities `p`:
//! `loss = (1 − ε)·w_t·(l − x_t) + ε/N·Σ w_c·(l − x_c)` with `l = m + ln(Σ exp(x − m))`, `m = max(x)`, and
//! `dx_c = g·(mass·p_c − (1 − ε)·w_t·[c = t] − ε/N·w_c)` with `mass = (1 − ε)·w_t + ε/N·Σ w_c`.
//!
//! Either way a row is read once.

mod backward;
mod forward;

pub(crate) use backward::{Backward, LOGITS};
pub(crate) use forward::Forward;

use super::{
    plan::{Blueprint, Ends, Hardware, Op, Pass},
    row::{Length, Row, read_any},
    stored::widened,
};
use cubecl::{ir::ElemType, prelude::*};

/// Numbers that are kept of a row for its backward pass: `m`, `l − m` and the mass.
pub(crate) const SAVED: usize = 3;

/// The matrix of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub rows: usize,
    pub columns: usize,
    /// Elements that are loaded at once.
    pub width: usize,
    pub hardware: Hardware,
}

impl Extent {
    /// Every row is a team's.
    fn blueprint(&self, pass: Pass, size: usize) -> Blueprint {
        let Self { columns, width, hardware, .. } = *self;
        Blueprint::for_lengths(Op::CrossEntropy, pass, columns, width, size, hardware)
    }
}

/// The element types of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Types {
    pub logits: ElemType,
    pub targets: ElemType,
    pub weights: ElemType,
    pub accumulator: ElemType,
}

/// What is asked for, as numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Targets of rows that are left out.
    pub ignored: Option<i64>,
    /// Whether the number of columns is one of the targets' type: else all of its numbers are below.
    pub bounded: bool,
    pub smoothing: f64,
}

/// What is asked for. Compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Form {
    ignores: bool,
    bounded: bool,
    smooths: bool,
    /// Whether logits are narrower than the accumulator.
    narrow: bool,
}

impl Form {
    fn new(options: Options, types: Types) -> Self {
        Self {
            ignores: options.ignored.is_some(),
            bounded: options.bounded,
            smooths: options.smoothing > 0.0,
            narrow: types.logits.size() < types.accumulator.size(),
        }
    }
}

/// A row's class.
#[derive(CubeType)]
struct Target {
    column: usize,
    /// Whether there is such a class.
    exists: bool,
    ignored: bool,
}

#[cube]
fn target<I: Int>(
    targets: &[I],
    row: usize,
    ignored: &InputScalar,
    length: &Length,
    #[comptime] form: Form,
) -> Target {
    let class = targets[row];
    let ignored =
        if comptime!(form.ignores) { class == ignored.get::<I>() } else { false.runtime() };
    let below =
        if comptime!(form.bounded) { class < I::cast_from(length.columns) } else { true.runtime() };
    let exists = class >= I::new(0) && below;
    Target { column: select(exists, usize::cast_from(class), 0usize), exists, ignored }
}

/// The element of a row at `column`.
#[cube]
fn element<F: Numeric, A: Float, V: Size>(
    source: &[Vector<F, V>],
    row: &Row,
    column: usize,
    length: &Length,
    #[comptime] ends: Ends,
) -> A {
    let width = Vector::<F, V>::zero().vector_size();
    let vector = read_any(source, row, column / width, length, ends);
    let vector = widened::<F, A, V>(vector);
    let mut value = vector.extract(0usize);
    #[unroll]
    for i in 1..width {
        value = select(column % width == i.runtime(), vector.extract(i), value);
    }
    value
}

/// The weight of a row's class, 1 without weights.
#[cube]
fn weight<W: Numeric, A: Float, V: Size>(
    weights: ComptimeOption<&[Vector<W, V>]>,
    target: &Target,
    length: &Length,
    #[comptime] ends: Ends,
) -> A {
    let mut weight = A::new(1.0);
    #[comptime]
    match weights {
        ComptimeOption::Some(weights) => {
            weight = element::<W, A, V>(weights, &Row::only(), target.column, length, ends);
        }
        ComptimeOption::None => {}
    }
    weight
}
