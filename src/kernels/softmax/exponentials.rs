//! The sum of exponentials, and what the gradients are made of.

use crate::kernels::row::RunningSum;
use cubecl::prelude::*;

/// The sum of exponentials of values less the largest of them so far, which both change as values
/// come (Milakov and Gimelshein, *Online normalizer calculation for softmax*, 2018). Each element of a
/// vector has its own.
#[derive(CubeType)]
pub(super) struct Exponentials<A: Float, V: Size> {
    pub largest: Vector<A, V>,
    sum: RunningSum<A, V>,
}

#[cube]
impl<A: Float, V: Size> Exponentials<A, V> {
    /// Of no values. The least finite number stands for −∞, less which −∞ is not NaN.
    pub fn new() -> Self {
        Exponentials::<A, V> {
            largest: Vector::new(A::min_value()),
            sum: RunningSum::<A, V>::new(),
        }
    }

    /// Adds `terms`, the sum of the exponentials of some values less `largest`; that is the largest of
    /// them and of `self.largest`.
    pub fn add(&mut self, terms: Vector<A, V>, largest: Vector<A, V>) {
        self.sum.scale(exp::<A, V>(self.largest - largest));
        self.largest = largest;
        self.sum.add(terms);
    }

    /// The sum, as that of values less `largest`.
    pub fn total(&self, largest: Vector<A, V>) -> Vector<A, V> {
        self.sum.total() * exp::<A, V>(self.largest - largest)
    }
}

/// The exponential, the same whatever the width: CubeCL's CPU compiler takes another function for one
/// number than for several.
#[cube]
pub(super) fn exp<A: Float, V: Size>(x: Vector<A, V>) -> Vector<A, V> {
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

/// `exp(x − m) / s` or `x − m − ln(s)`, where `scale` is `1 / s` or `ln(s)`.
#[cube]
pub(super) fn output<A: Float, V: Size>(
    x: Vector<A, V>,
    largest: Vector<A, V>,
    scale: Vector<A, V>,
    #[comptime] log: bool,
) -> Vector<A, V> {
    let distance = x - largest;
    if comptime!(log) { distance - scale } else { exp::<A, V>(distance) * scale }
}

/// `1 / s` or `ln(s)`.
#[cube]
pub(super) fn scale<A: Float, V: Size>(sum: Vector<A, V>, #[comptime] log: bool) -> Vector<A, V> {
    if comptime!(log) { ln::<A, V>(sum) } else { Vector::new(A::new(1.0)) / sum }
}

/// What is summed over a row for its gradient: `dy·y` or `dy`.
#[cube]
pub(super) fn gradient_term<A: Float, V: Size>(
    dy: Vector<A, V>,
    y: Vector<A, V>,
    #[comptime] log: bool,
) -> Vector<A, V> {
    if comptime!(log) { dy } else { dy * y }
}

/// `y·(dy − sum)` or `dy − exp(y)·sum`.
#[cube]
pub(super) fn gradient<A: Float, V: Size>(
    dy: Vector<A, V>,
    y: Vector<A, V>,
    sum: Vector<A, V>,
    #[comptime] log: bool,
) -> Vector<A, V> {
    if comptime!(log) { dy - exp::<A, V>(y) * sum } else { y * (dy - sum) }
}
