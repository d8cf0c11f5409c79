//! A row's mean and spread.
//!
//! LayerNorm's are taken of `x − near`, where `near` is close to the mean: the mean itself but for its
//! rounding where the row is in registers, which makes this the corrected two-pass algorithm of Chan,
//! Golub and LeVeque (1983); that of its first chunk where the row is read in chunks, whose moments are
//! merged as they come (Chan's parallel form of Welford's algorithm). What `near` is off by is `rest`,
//! so that `x − near − rest` is free of the mean's size.

mod chunks;

use crate::kernels::{
    plan::Blueprint,
    row::{Length, inside_or},
    source::{Kept, Source},
    stored::widened,
    sums::{Count, RunningSum, elements_sum},
    team::{Team, lane},
};
use chunks::chunked;
use cubecl::{ir::ElemType, prelude::*};

/// What is computed. Compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Formula {
    /// Whether the mean is subtracted: LayerNorm.
    pub centered: bool,
    /// Whether gamma is kept less 1.
    pub zero_centered_gamma: bool,
    /// Whether sums are f64.
    pub double: bool,
    /// Whether results are rounded to a narrower type than that of sums.
    pub narrow: bool,
}

impl Formula {
    /// For results of the type `result`.
    pub(super) fn new(
        centered: bool,
        zero_centered_gamma: bool,
        result: ElemType,
        accumulator: ElemType,
    ) -> Self {
        let size = accumulator.size();
        let narrow = result.size() < size;
        Self { centered, zero_centered_gamma, double: size == 8, narrow }
    }

    /// Numbers that are kept of all rows for their backward pass.
    pub(super) fn saved(self, rows: usize) -> usize {
        if self.centered { 3 * rows } else { rows }
    }
}

/// What normalises a row: `x̂ = (x − near − rest)·inverse_root`.
#[derive(CubeType)]
pub(super) struct Statistics<A: Float> {
    pub inverse_root: A,
    pub near: A,
    pub rest: A,
}

#[cube]
impl<A: Float> Statistics<A> {
    /// `x̂`.
    pub fn normalized<F: Numeric, V: Size>(
        &self,
        x: Vector<F, V>,
        #[comptime] formula: Formula,
    ) -> Vector<A, V> {
        let value = widened::<F, A, V>(x);
        let root = Vector::new(self.inverse_root);
        if comptime!(formula.centered) {
            let rest = Vector::new(-self.rest * self.inverse_root);
            fma(value - Vector::new(self.near), root, rest)
        } else {
            value * root
        }
    }
}

/// The part of a mean that its rounding is at most, some 8 units in the last place: 2⁻²⁰, in f64 2⁻⁴⁹. Much more
/// than the mean is really off by would take digits from the variance.
fn rounding_of_mean(formula: Formula) -> f32 {
    2f32.powi(if formula.double { -49 } else { -20 })
}

/// The mean, as `near + rest`, and the mean square of the distance from it, or from zero.
#[derive(CubeType)]
struct Moments<A: Float> {
    near: A,
    rest: A,
    square: A,
}

/// A power of two that takes values whose squares leave the accumulator's range well into it.
#[cube]
fn reduction<A: Float>(#[comptime] formula: Formula) -> A {
    // 2⁻⁸⁰, and 2⁻⁵⁶⁰.
    let step = A::new(comptime!(f32::from_bits(0x1780_0000)));
    let mut product = step;
    #[unroll]
    for _ in 1..comptime!(if formula.double { 7 } else { 1 }) {
        product *= step;
    }
    product
}

/// The statistics of a row; `held` holds it, unless it is chunked. Then it stays in `kept`.
#[cube]
pub(super) fn statistics<F: Numeric, A: Float, V: Size>(
    source: &Source<F, V>,
    held: &mut Array<Vector<F, V>>,
    kept: &mut Kept<F, V>,
    length: &Length,
    epsilon: A,
    team: &mut Team<A>,
    #[comptime] formula: Formula,
    #[comptime] blueprint: Blueprint,
) -> Statistics<A> {
    let found = moments::<F, A, V>(source, held, kept, length, team, formula, false, blueprint);
    let mut root = inverse_root::<A>(found.square + epsilon);
    let mut near = found.near;
    let mut rest = found.rest;
    // Infinite or NaN: a row that holds such values, or whose squares or sum left the range.
    let fits = found.square <= A::max_value();
    if !fits {
        let scale = reduction::<A>(formula);
        let found = moments::<F, A, V>(source, held, kept, length, team, formula, true, blueprint);
        let square = found.square + epsilon * scale * scale;
        // Of equal values the square is zero, and so is the scaled epsilon.
        let of_equal = inverse_root::<A>(epsilon);
        root = select(square == A::new(0.0), of_equal, inverse_root::<A>(square) * scale);
        near = found.near / scale;
        rest = found.rest / scale;
    }
    Statistics::<A> { inverse_root: root, near, rest }
}

/// `1 / sqrt(square)`, corrected by a step of Newton's: every value of the row is multiplied by it.
#[cube]
fn inverse_root<A: Float>(square: A) -> A {
    let root = A::recip(square.sqrt());
    let product = square * root;
    let rounded_off = fma(square, root, -product);
    let error = fma(-product, root, A::new(1.0)) - rounded_off * root;
    let better = fma(root * A::new(0.5), error, root);
    // Neither of zero nor of infinity, whose roots are exact.
    select(square > A::new(0.0) && square <= A::max_value(), better, root)
}

#[cube]
fn moments<F: Numeric, A: Float, V: Size>(
    source: &Source<F, V>,
    held: &mut Array<Vector<F, V>>,
    kept: &mut Kept<F, V>,
    length: &Length,
    team: &mut Team<A>,
    #[comptime] formula: Formula,
    #[comptime] scaled: bool,
    #[comptime] blueprint: Blueprint,
) -> Moments<A> {
    // Few units, as processors have for a row, read it again from their cache, and merging their many
    // chunks would add up more rounding.
    if comptime!(formula.centered && (!blueprint.chunked || blueprint.lanes < 32)) {
        two_pass::<F, A, V>(source, held, kept, length, team, formula, scaled, blueprint)
    } else if comptime!(blueprint.chunked) {
        chunked::<F, A, V>(source, held, kept, length, team, formula, scaled, blueprint)
    } else {
        let sum = sum_of_squares::<F, A, V>(held, formula, scaled, blueprint);
        let square = Count::<A>::of(length.columns).mean(team.sum(elements_sum::<A, V>(sum)));
        Moments::<A> { near: A::new(0.0), rest: A::new(0.0), square }
    }
}

/// A row's values, in the accumulator.
#[cube]
fn value<F: Numeric, A: Float, V: Size>(
    value: Vector<F, V>,
    #[comptime] formula: Formula,
    #[comptime] scaled: bool,
) -> Vector<A, V> {
    let value = widened::<F, A, V>(value);
    if comptime!(scaled) {
        // Not a product, which Mesa's compiler takes out of a sum of such, and the sum overflows.
        let tiny = Vector::new(A::new(2e-38));
        fma(value, Vector::new(reduction::<A>(formula)), tiny)
    } else {
        value
    }
}

/// The sum of the squares of what is held.
#[cube]
fn sum_of_squares<F: Numeric, A: Float, V: Size>(
    held: &mut Array<Vector<F, V>>,
    #[comptime] formula: Formula,
    #[comptime] scaled: bool,
    #[comptime] blueprint: Blueprint,
) -> Vector<A, V> {
    let mut sum = Vector::<A, V>::zero();
    #[unroll]
    for i in 0..blueprint.held {
        let value = value::<F, A, V>(held[i], formula, scaled);
        sum += value * value;
    }
    sum
}

/// The corrected two-pass algorithm.
#[cube]
fn two_pass<F: Numeric, A: Float, V: Size>(
    source: &Source<F, V>,
    held: &mut Array<Vector<F, V>>,
    kept: &mut Kept<F, V>,
    length: &Length,
    team: &mut Team<A>,
    #[comptime] formula: Formula,
    #[comptime] scaled: bool,
    #[comptime] blueprint: Blueprint,
) -> Moments<A> {
    let lane = lane(blueprint);
    let chunk = comptime!(blueprint.held * blueprint.lanes);
    let columns = Count::<A>::of(length.columns);
    // Before the first barrier, behind which others may write over it.
    let first = first_value::<F, A, V>(source, length, formula, scaled, blueprint);
    let mut sum = RunningSum::<A, V>::new();
    if comptime!(blueprint.chunked) {
        let mut start = lane;
        while start < length.vectors + lane {
            kept.load(source, start, length, held);
            sum.add(sum_of_values::<F, A, V>(held, formula, scaled, blueprint));
            start += chunk;
        }
    } else {
        sum.add(sum_of_values::<F, A, V>(held, formula, scaled, blueprint));
    }
    let mean = columns.mean(team.sum(elements_sum::<A, V>(sum.total())));
    // A value of the row that the mean may as well be: of rows of one value it is, to the bit.
    let close = (first - mean).abs() <= mean.abs() * A::new(comptime!(rounding_of_mean(formula)));
    let near = select(close, first, mean);
    let mut sum = RunningSum::<A, V>::new();
    let mut squares = RunningSum::<A, V>::new();
    if comptime!(blueprint.chunked) {
        let mut start = lane;
        while start < length.vectors + lane {
            kept.load_again(source, start, length, held);
            let (part, part_squares) =
                distances::<F, A, V>(held, near, start, length, formula, scaled, blueprint);
            sum.add(part);
            squares.add(part_squares);
            start += chunk;
        }
    } else {
        let (part, part_squares) =
            distances::<F, A, V>(held, near, lane, length, formula, scaled, blueprint);
        sum.add(part);
        squares.add(part_squares);
    }
    let (sum, squares) =
        team.sum_both(elements_sum::<A, V>(sum.total()), elements_sum::<A, V>(squares.total()));
    let rest = columns.mean(sum);
    // Below zero by rounding; NaN is neither, and stays.
    let variance = columns.mean(squares) - rest * rest;
    let square = select(variance < A::new(0.0), A::new(0.0), variance);
    Moments::<A> { near, rest, square }
}

/// The row's first value.
#[cube]
fn first_value<F: Numeric, A: Float, V: Size>(
    source: &Source<F, V>,
    length: &Length,
    #[comptime] formula: Formula,
    #[comptime] scaled: bool,
    #[comptime] blueprint: Blueprint,
) -> A {
    let first = source.any(0usize.runtime(), length, blueprint.ends);
    value::<F, A, V>(first, formula, scaled).extract(0usize)
}

/// Zeros past the row's end add nothing.
#[cube]
fn sum_of_values<F: Numeric, A: Float, V: Size>(
    held: &mut Array<Vector<F, V>>,
    #[comptime] formula: Formula,
    #[comptime] scaled: bool,
    #[comptime] blueprint: Blueprint,
) -> Vector<A, V> {
    let mut sum = Vector::<A, V>::zero();
    #[unroll]
    for i in 0..blueprint.held {
        sum += value::<F, A, V>(held[i], formula, scaled);
    }
    sum
}

/// The sum of the held values' distances from `near`, and that of their squares. Past the row's end
/// the distance is not zero, so it is left out.
#[cube]
fn distances<F: Numeric, A: Float, V: Size>(
    held: &mut Array<Vector<F, V>>,
    near: A,
    start: usize,
    length: &Length,
    #[comptime] formula: Formula,
    #[comptime] scaled: bool,
    #[comptime] blueprint: Blueprint,
) -> (Vector<A, V>, Vector<A, V>) {
    let mut sum = Vector::<A, V>::zero();
    let mut squares = Vector::<A, V>::zero();
    #[unroll]
    for i in 0..blueprint.held {
        let ends = comptime!(blueprint.ends_of(i));
        let distance = value::<F, A, V>(held[i], formula, scaled) - Vector::new(near);
        let column = start + i * blueprint.lanes;
        let distance = inside_or(distance, A::new(0.0), column, length, ends);
        sum += distance;
        squares += distance * distance;
    }
    (sum, squares)
}
