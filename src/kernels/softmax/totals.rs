//! The largest value and the sum of exponentials of rows as units hold them.

use super::exponentials::{Form, RowExponentials, exp, scale};
use crate::kernels::{
    plan::{Blueprint, Ends},
    row::{Length, fill_past_end, inside_or},
    stored::{minus_infinity, widened},
    sums::{elements_max, elements_sum},
    team::{Team, lane},
};
use cubecl::prelude::*;

/// Makes −∞, which adds nothing to a sum of exponentials, what of a unit's vectors is past the end of a
/// row whose last vector is a part of one: once, as it is much to ask for each element. Elsewhere whole
/// vectors are left out where they are used, as WGSL has no −∞.
#[cube]
pub(in crate::kernels) fn pad<F: Numeric, V: Size>(
    held: &mut Array<Vector<F, V>>,
    start: usize,
    length: &Length,
    #[comptime] blueprint: Blueprint,
) {
    if comptime!(blueprint.ends.ragged) {
        fill_past_end(held, minus_infinity::<F>(), start, length, blueprint);
    }
}

/// [`inside_or`] of what comes of [`pad`]ded values.
#[cube]
pub(in crate::kernels) fn inside_or_padded<A: Float, V: Size>(
    value: Vector<A, V>,
    other: A,
    column: usize,
    length: &Length,
    #[comptime] ends: Ends,
) -> Vector<A, V> {
    if comptime!(ends.ragged) { value } else { inside_or(value, other, column, length, ends) }
}

/// Adds the exponentials of what is held.
#[cube]
pub(in crate::kernels) fn add<F: Numeric, A: Float, V: Size>(
    exponentials: &mut RowExponentials<A>,
    held: &mut Array<Vector<F, V>>,
    start: usize,
    length: &Length,
    #[comptime] blueprint: Blueprint,
) {
    if comptime!(blueprint.chunked && (!blueprint.ends.exact || blueprint.ends.ragged)) {
        // All chunks but the last are whole. With this, and one base a unit, cross-entropy of
        // 4,096×128,000 logits takes 325 µs on an H200 in bf16, 466 in f32; 537 and 519 without.
        let end = start - lane(blueprint) + comptime!(blueprint.held * blueprint.lanes);
        let last = comptime!(usize::from(blueprint.ends.ragged));
        if end + last <= length.vectors {
            let whole = comptime!(blueprint.whole());
            add_chunk::<F, A, V>(exponentials, held, start, length, whole);
        } else {
            add_chunk::<F, A, V>(exponentials, held, start, length, blueprint);
        }
    } else {
        add_chunk::<F, A, V>(exponentials, held, start, length, blueprint);
    }
}

#[cube]
fn add_chunk<F: Numeric, A: Float, V: Size>(
    exponentials: &mut RowExponentials<A>,
    held: &mut Array<Vector<F, V>>,
    start: usize,
    length: &Length,
    #[comptime] blueprint: Blueprint,
) {
    pad(held, start, length, blueprint);
    let largest = elements_max::<A, V>(largest::<F, A, V>(held, start, length, blueprint));
    let base = exponentials.raise(Vector::new(largest)).extract(0usize);
    let sum = sum::<F, A, V>(held, Vector::new(base), start, length, blueprint);
    exponentials.add(Vector::new(elements_sum::<A, V>(sum)));
}

/// The largest of a row's values, and what [`scale`] makes of the sum of its exponentials.
#[cube]
pub(in crate::kernels) fn finished<A: Float, V: Size>(
    exponentials: &RowExponentials<A>,
    team: &mut Team<A>,
    #[comptime] form: Form,
) -> (Vector<A, V>, Vector<A, V>) {
    let largest = team.max(exponentials.largest.extract(0usize));
    let total = team.sum(exponentials.total(Vector::new(largest)).extract(0usize));
    (Vector::new(largest), scale::<A, V>(Vector::new(total), form))
}

/// The largest of the held values, or the least finite number if all are −∞.
#[cube]
pub(in crate::kernels) fn largest<F: Numeric, A: Float, V: Size>(
    held: &mut Array<Vector<F, V>>,
    start: usize,
    length: &Length,
    #[comptime] blueprint: Blueprint,
) -> Vector<A, V> {
    let mut largest = Vector::<A, V>::new(A::min_value());
    #[unroll]
    for i in 0..blueprint.held {
        let ends = comptime!(blueprint.ends_of(i));
        let column = start + i * blueprint.lanes;
        let value = widened::<F, A, V>(held[i]);
        let value = inside_or_padded(value, A::min_value(), column, length, ends);
        largest = max(largest, value);
    }
    largest
}

/// The sum of the exponentials of what is held, less `base`.
#[cube]
pub(in crate::kernels) fn sum<F: Numeric, A: Float, V: Size>(
    held: &mut Array<Vector<F, V>>,
    base: Vector<A, V>,
    start: usize,
    length: &Length,
    #[comptime] blueprint: Blueprint,
) -> Vector<A, V> {
    let mut sum = Vector::<A, V>::zero();
    #[unroll]
    for i in 0..blueprint.held {
        let ends = comptime!(blueprint.ends_of(i));
        let column = start + i * blueprint.lanes;
        let term = exp::<A, V>(widened::<F, A, V>(held[i]) - base);
        sum += inside_or_padded(term, A::new(0.0), column, length, ends);
    }
    sum
}
