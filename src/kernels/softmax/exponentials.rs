//! The sum of exponentials, and what the gradients are made of.

use super::Types;
use crate::kernels::sums::{RunningSum, two_sums};
use cubecl::prelude::*;

/// How far a value may be above the base of a sum of exponentials before the base is raised.
const MARGIN: f32 = 8.0;

/// The sum of exponentials of values less a base near the largest of them so far, which both change as
/// values come (after Milakov and Gimelshein, *Online normalizer calculation for softmax*, 2018). The
/// base lags behind, so that slowly rising values do not round the sum each time anew. Each element of
/// a vector has its own: columns next to one another are summed in as many, a row in one.
#[derive(CubeType)]
pub(in crate::kernels) struct Exponentials<A: Float, V: Size> {
    pub largest: Vector<A, V>,
    base: Vector<A, V>,
    sum: RunningSum<A, V>,
}

/// Those of a row.
pub(in crate::kernels) type RowExponentials<A> = Exponentials<A, Const<1>>;

#[cube]
impl<A: Float, V: Size> Exponentials<A, V> {
    /// Of no values. The least finite number stands for −∞, less which −∞ is not NaN.
    pub fn new() -> Self {
        Exponentials::<A, V> {
            largest: Vector::new(A::min_value()),
            base: Vector::new(A::min_value()),
            sum: RunningSum::<A, V>::new(),
        }
    }

    /// Makes them those of no values.
    pub fn clear(&mut self) {
        self.largest = Vector::new(A::min_value());
        self.base = Vector::new(A::min_value());
        self.sum.clear();
    }

    /// The base for further values of which `largest` is the largest.
    pub fn raise(&mut self, largest: Vector<A, V>) -> Vector<A, V> {
        self.largest = max(self.largest, largest);
        let above = self.largest.greater_than(&(self.base + Vector::new(A::new(MARGIN))));
        let mut any = above.extract(0usize);
        #[unroll]
        for i in 1..self.base.vector_size() {
            any = any || above.extract(i);
        }
        // Seldom after the first values.
        if any {
            let base = select_many(above, self.largest, self.base);
            // Not every exponential of 0 is 1 to the last bit.
            let factor = exp::<A, V>(self.base - base);
            self.sum.scale(select_many(above, factor, Vector::new(A::new(1.0))));
            self.base = base;
        }
        self.base
    }

    /// Adds the sum of the exponentials of some values less the base.
    pub fn add(&mut self, terms: Vector<A, V>) {
        self.sum.add(terms);
    }

    /// The sum, as that of values less `largest`.
    pub fn total(&self, largest: Vector<A, V>) -> Vector<A, V> {
        self.sum.total() * exp::<A, V>(self.base - largest)
    }
}

/// The exponential, the same whatever the width: CubeCL's CPU compiler takes another function for one
/// number than for several.
#[cube]
pub(in crate::kernels) fn exp<A: Float, V: Size>(x: Vector<A, V>) -> Vector<A, V> {
    let width = x.vector_size().comptime();
    if comptime!(width == 1) {
        let pair = Vector::<A, Const<2>>::new(x.extract(0usize));
        Vector::new(pair.exp().extract(0usize))
    } else {
        x.exp()
    }
}

/// The natural logarithm, as [`exp`].
#[cube]
fn ln<A: Float, V: Size>(x: Vector<A, V>) -> Vector<A, V> {
    let width = x.vector_size().comptime();
    if comptime!(width == 1) {
        let pair = Vector::<A, Const<2>>::new(x.extract(0usize));
        Vector::new(pair.ln().extract(0usize))
    } else {
        x.ln()
    }
}

/// What is returned. Compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::kernels) struct Form {
    /// The logarithm.
    pub log: bool,
    /// Whether the output is rounded to a narrower type, beside which the rounding of `1 / s` is
    /// nothing.
    pub narrow: bool,
}

impl Form {
    pub(in crate::kernels) fn new(log: bool, types: Types) -> Self {
        Self { log, narrow: types.x.size() < types.accumulator.size() }
    }
}

/// `exp(x − m) / s` or `x − m − ln(s)`, given what [`scale`] made of `s`.
#[cube]
pub(in crate::kernels) fn output<A: Float, V: Size>(
    x: Vector<A, V>,
    largest: Vector<A, V>,
    scale: Vector<A, V>,
    #[comptime] form: Form,
) -> Vector<A, V> {
    if comptime!(form.narrow && form.log) {
        x - largest - scale
    } else if comptime!(form.log) {
        let (distance, rest) = distance::<A, V>(x, largest);
        distance - (scale - rest)
    } else {
        share::<A, V>(exponential::<A, V>(x, largest, form), scale, form)
    }
}

/// `exp(x − m)`, as if `x − m` were not rounded, but where the output is.
#[cube]
pub(in crate::kernels) fn exponential<A: Float, V: Size>(
    x: Vector<A, V>,
    largest: Vector<A, V>,
    #[comptime] form: Form,
) -> Vector<A, V> {
    if comptime!(form.narrow) {
        exp::<A, V>(x - largest)
    } else {
        let (distance, rest) = distance::<A, V>(x, largest);
        let exponential = exp::<A, V>(distance);
        fma(exponential, rest, exponential)
    }
}

/// `exponential / s`, given what [`scale`] made of `s`.
#[cube]
pub(in crate::kernels) fn share<A: Float, V: Size>(
    exponential: Vector<A, V>,
    scale: Vector<A, V>,
    #[comptime] form: Form,
) -> Vector<A, V> {
    if comptime!(form.narrow) { exponential * scale } else { quotient::<A, V>(exponential, scale) }
}

/// `x − m`, and what was rounded off it.
#[cube]
fn distance<A: Float, V: Size>(
    x: Vector<A, V>,
    largest: Vector<A, V>,
) -> (Vector<A, V>, Vector<A, V>) {
    let (distance, rest) = two_sums::<A, V>(x, -largest);
    // Nothing is off an infinite distance.
    let finite = distance.abs().less_equal(&Vector::new(A::max_value()));
    (distance, select_many(finite, rest, Vector::zero()))
}

/// `a / b` to the last bit or the one before, by one reciprocal for many `a`: a division is a call on
/// GPUs, which made softmax's forward pass in f32 a tenth slower on an H200.
#[cube]
fn quotient<A: Float, V: Size>(a: Vector<A, V>, b: Vector<A, V>) -> Vector<A, V> {
    let reciprocal = Vector::new(A::new(1.0)) / b;
    let quotient = a * reciprocal;
    fma(fma(-quotient, b, a), reciprocal, quotient)
}

/// `s`, `1 / s` or `ln(s)`.
#[cube]
pub(in crate::kernels) fn scale<A: Float, V: Size>(
    sum: Vector<A, V>,
    #[comptime] form: Form,
) -> Vector<A, V> {
    if comptime!(form.log) {
        ln::<A, V>(sum)
    } else if comptime!(form.narrow) {
        Vector::new(A::new(1.0)) / sum
    } else {
        sum
    }
}

/// What is summed over a row for its gradient: `dy·y` or `dy`.
#[cube]
pub(in crate::kernels) fn gradient_term<A: Float, V: Size>(
    dy: Vector<A, V>,
    y: Vector<A, V>,
    #[comptime] log: bool,
) -> Vector<A, V> {
    if comptime!(log) { dy } else { dy * y }
}

/// `y·(dy − sum)` or `dy − exp(y)·sum`.
#[cube]
pub(in crate::kernels) fn gradient<A: Float, V: Size>(
    dy: Vector<A, V>,
    y: Vector<A, V>,
    sum: Vector<A, V>,
    #[comptime] log: bool,
) -> Vector<A, V> {
    if comptime!(log) { fma(-exp::<A, V>(y), sum, dy) } else { y * (dy - sum) }
}
