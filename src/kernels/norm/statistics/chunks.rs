use super::{Formula, Moments, distances, first_value, sum_of_squares, value};
use crate::kernels::{
    plan::Blueprint,
    row::{Length, inside_or},
    source::{Kept, Source},
    sums::{Count, RunningSum, elements_sum},
    team::{Team, lane},
};
use cubecl::prelude::*;

/// What is added up of a row that comes in chunks: its squares; or where the mean is subtracted, of
/// values less `near`, moments that each unit merges, each element of a vector for itself.
#[derive(CubeType)]
struct Chunks<A: Float, V: Size> {
    near: A,
    /// How many values there were, their mean, and the squared distances from it.
    seen: Vector<A, V>,
    mean: Vector<A, V>,
    squares: RunningSum<A, V>,
}

#[cube]
impl<A: Float, V: Size> Chunks<A, V> {
    fn new(near: A) -> Self {
        Chunks::<A, V> {
            near,
            seen: Vector::zero(),
            mean: Vector::zero(),
            squares: RunningSum::<A, V>::new(),
        }
    }

    fn add<F: Numeric>(
        &mut self,
        chunk: &mut Array<Vector<F, V>>,
        start: usize,
        length: &Length,
        #[comptime] formula: Formula,
        #[comptime] scaled: bool,
        #[comptime] blueprint: Blueprint,
    ) {
        if comptime!(!formula.centered) {
            self.squares.add(sum_of_squares::<F, A, V>(chunk, formula, scaled, blueprint));
        } else {
            let (near, one) = (Vector::new(self.near), Vector::<A, V>::new(A::new(1.0)));
            let mut terms = Vector::<A, V>::zero();
            let mut sum = Vector::<A, V>::zero();
            #[unroll]
            for i in 0..blueprint.held {
                let ends = comptime!(blueprint.ends_of(i));
                let column = start + i * blueprint.lanes;
                let distance = value::<F, A, V>(chunk[i], formula, scaled) - near;
                sum += inside_or(distance, A::new(0.0), column, length, ends);
                terms += inside_or(one, A::new(0.0), column, length, ends);
            }
            let part = sum * (one / max(terms, one));
            let mut part_squares = Vector::<A, V>::zero();
            #[unroll]
            for i in 0..blueprint.held {
                let ends = comptime!(blueprint.ends_of(i));
                let column = start + i * blueprint.lanes;
                let distance = value::<F, A, V>(chunk[i], formula, scaled) - near - part;
                part_squares += inside_or(distance * distance, A::new(0.0), column, length, ends);
            }
            let weight = terms * (one / max(self.seen + terms, one));
            let step = part - self.mean;
            self.mean += step * weight;
            self.squares.add(part_squares + step * step * (self.seen * weight));
            self.seen += terms;
        }
    }

    /// The moments of all that was added.
    fn moments(
        &self,
        columns: usize,
        team: &mut Team<A>,
        #[comptime] formula: Formula,
    ) -> Moments<A> {
        let columns = Count::<A>::of(columns);
        let mut rest = A::new(0.0);
        let mut squares = self.squares.total();
        if comptime!(formula.centered) {
            rest = columns.mean(team.sum(elements_sum::<A, V>(self.mean * self.seen)));
            let distance = self.mean - Vector::new(rest);
            squares += distance * distance * self.seen;
        }
        let square = columns.mean(team.sum(elements_sum::<A, V>(squares)));
        Moments::<A> { near: self.near, rest, square }
    }
}

/// Moments of a row in chunks, of which `kept` keeps those it has room for.
#[cube]
pub(super) fn chunked<F: Numeric, A: Float, V: Size>(
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
    let mut near = A::new(0.0);
    if comptime!(formula.centered) {
        source.load(lane, length, held, blueprint);
        // By way of its first value: of equal values the mean is that value, to the bit.
        let first = first_value::<F, A, V>(source, length, formula, scaled, blueprint);
        let (sum, _) = distances::<F, A, V>(held, first, lane, length, formula, scaled, blueprint);
        let width = sum.vector_size();
        let count = usize::min(length.columns, comptime!(chunk * width).runtime());
        near = first + Count::<A>::of(count).mean(team.sum(elements_sum::<A, V>(sum)));
    }
    let mut chunks = Chunks::<A, V>::new(near);
    let mut start = lane;
    while start < length.vectors + lane {
        kept.load(source, start, length, held);
        chunks.add(held, start, length, formula, scaled, blueprint);
        start += chunk;
    }
    chunks.moments(length.columns, team, formula)
}
