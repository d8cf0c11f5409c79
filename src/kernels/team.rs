//! The units that share a row or a column, and what their values fold into.

use super::{
    plan::Blueprint,
    sums::{corrected, two_sum},
};
use cubecl::prelude::*;

/// The place of this unit's team in the launch: its row, or its group of rows.
#[cube]
pub(crate) fn team_position(#[comptime] blueprint: Blueprint) -> usize {
    CUBE_POS * blueprint.teams + team_in_cube(blueprint)
}

/// The place of this unit's team in its cube.
#[cube]
pub(crate) fn team_in_cube(#[comptime] blueprint: Blueprint) -> usize {
    if comptime!(blueprint.teams == 1) {
        // Not from the unit's position: barriers ask for control flow seen to be uniform.
        0usize.runtime()
    } else {
        UNIT_POS_X as usize / blueprint.lanes
    }
}

/// The place of this unit in its team.
#[cube]
pub(crate) fn lane(#[comptime] blueprint: Blueprint) -> usize {
    if comptime!(blueprint.teams == 1) {
        UNIT_POS_X as usize
    } else {
        UNIT_POS_X as usize % blueprint.lanes
    }
}

/// How the values of a team's units become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fold {
    Sum,
    Max,
}

#[cube]
fn folded<A: Float>(a: A, b: A, #[comptime] fold: Fold) -> A {
    if comptime!(fold == Fold::Sum) { a + b } else { max(a, b) }
}

/// The sum or the largest of the values of `units` neighbours in a plane, a power of two, given to
/// each. A precise sum is rounded once: the last additions have the largest errors.
#[cube]
fn plane_fold<A: Float>(
    value: A,
    #[comptime] units: usize,
    #[comptime] fold: Fold,
    #[comptime] precise: bool,
) -> A {
    let mut result = value;
    let mut rest = A::new(0.0);
    #[unroll]
    for step in 0..comptime!(units.ilog2()) {
        let mask = comptime!(1u32 << step);
        let other = plane_shuffle_xor(result, mask);
        if comptime!(precise) {
            rest += plane_shuffle_xor(rest, mask);
            let (sum, error) = two_sum::<A>(result, other);
            result = sum;
            rest += error;
        } else {
            result = folded::<A>(result, other, fold);
        }
    }
    if comptime!(precise) { corrected::<A>(result, rest) } else { result }
}

/// The units that share a row, and what they meet in. Each of its folds gives the result to every
/// unit, and every unit of the cube must call it.
#[derive(CubeType)]
pub(crate) struct Team<A: Float> {
    /// Two places for what one fold shares, where it shares anything.
    scratch: ComptimeOption<Shared<[A]>>,
    /// Which place is next: one fold's readers never meet the next one's writers.
    phase: usize,
    #[cube(comptime)]
    blueprint: Blueprint,
    /// Whether sums are rounded once: where results are as wide as sums. Beside the rounding to a
    /// narrower type that of a sum is nothing.
    #[cube(comptime)]
    precise: bool,
}

/// Values that a fold takes from each unit at most.
const VALUES: usize = 2;

#[cube]
impl<A: Float> Team<A> {
    pub fn new(#[comptime] precise: bool, #[comptime] blueprint: Blueprint) -> Self {
        let sharers = comptime!(blueprint.sharers());
        let scratch = if comptime!(sharers > 0) {
            let places = comptime!(2 * blueprint.teams * VALUES * sharers);
            ComptimeOption::new_Some(Shared::<[A]>::new_slice(places))
        } else {
            ComptimeOption::new_None()
        };
        Team::<A> { scratch, phase: 0usize, blueprint, precise }
    }

    pub fn sum(&mut self, value: A) -> A {
        let mut values = Array::<A>::new(1usize);
        values[0] = value;
        self.fold(&mut values, 1usize, Fold::Sum);
        values[0]
    }

    /// Two sums for one barrier.
    pub fn sum_both(&mut self, first: A, second: A) -> (A, A) {
        let mut values = Array::<A>::new(2usize);
        values[0] = first;
        values[1] = second;
        self.fold(&mut values, 2usize, Fold::Sum);
        (values[0], values[1])
    }

    pub fn max(&mut self, value: A) -> A {
        let mut values = Array::<A>::new(1usize);
        values[0] = value;
        self.fold(&mut values, 1usize, Fold::Max);
        values[0]
    }

    fn fold(&mut self, values: &mut Array<A>, #[comptime] count: usize, #[comptime] fold: Fold) {
        let blueprint = self.blueprint;
        let precise = comptime!(self.precise && fold == Fold::Sum);
        let sharers = comptime!(blueprint.sharers());
        let team = team_in_cube(blueprint);
        let base = (self.phase * blueprint.teams + team) * comptime!(VALUES * sharers);
        if comptime!(blueprint.plane > 1) {
            #[unroll]
            for i in 0..count {
                let units = comptime!(blueprint.lanes.min(blueprint.plane));
                values[i] = plane_fold::<A>(values[i], units, fold, precise);
            }
        }
        #[comptime]
        match self.scratch.as_mut() {
            ComptimeOption::Some(scratch) => {
                if comptime!(blueprint.plane > 1) {
                    if UNIT_POS_PLANE == 0 {
                        #[unroll]
                        for i in 0..count {
                            let plane = PLANE_POS as usize - team * sharers;
                            scratch[base + i * sharers + plane] = values[i];
                        }
                    }
                    sync_cube();
                    // A tree, so that errors grow with its height alone.
                    let mut parts = Array::<A>::new(sharers);
                    #[unroll]
                    for i in 0..count {
                        let mut rest = A::new(0.0);
                        #[unroll]
                        for plane in 0..sharers {
                            parts[plane] = scratch[base + i * sharers + plane];
                        }
                        #[unroll]
                        for step in 0..comptime!(sharers.next_power_of_two().ilog2()) {
                            #[unroll]
                            for pair in 0..comptime!((sharers >> step).div_ceil(2)) {
                                let at = comptime!((2 * pair) << step);
                                let other = comptime!(at + (1 << step));
                                if comptime!(other < sharers) {
                                    if comptime!(precise) {
                                        let (sum, error) = two_sum::<A>(parts[at], parts[other]);
                                        parts[at] = sum;
                                        rest += error;
                                    } else {
                                        parts[at] = folded::<A>(parts[at], parts[other], fold);
                                    }
                                }
                            }
                        }
                        values[i] = if comptime!(precise) {
                            corrected::<A>(parts[0], rest)
                        } else {
                            parts[0]
                        };
                    }
                } else {
                    let unit = lane(blueprint);
                    #[unroll]
                    for i in 0..count {
                        scratch[base + i * sharers + unit] = values[i];
                    }
                    sync_cube();
                    #[unroll]
                    for step in 0..comptime!(sharers.ilog2()) {
                        let half = comptime!(sharers >> (step + 1));
                        if unit < half {
                            #[unroll]
                            for i in 0..count {
                                let at = base + i * sharers + unit;
                                let value = folded::<A>(scratch[at], scratch[at + half], fold);
                                scratch[at] = value;
                            }
                        }
                        sync_cube();
                    }
                    #[unroll]
                    for i in 0..count {
                        values[i] = scratch[base + i * sharers];
                    }
                }
                self.phase = 1usize - self.phase;
            }
            ComptimeOption::None => {}
        }
    }
}

/// The sum or the largest of the values of the units that share a column, given to each: `splits` of
/// them, a power of two, in each of `lanes` columns. A tree of eights. Every unit of the cube must call
/// it.
#[cube]
pub(crate) fn fold_columns<A: Float, V: Size>(
    value: Vector<A, V>,
    #[comptime] lanes: usize,
    #[comptime] splits: usize,
    #[comptime] fold: Fold,
) -> Vector<A, V> {
    if comptime!(splits == 1) {
        value
    } else {
        let mut scratch = Shared::<[Vector<A, V>]>::new_slice(comptime!(splits * lanes));
        let split = UNIT_POS_Y as usize;
        let lane = UNIT_POS_X as usize;
        // The readers of an earlier fold, should it have had the same memory.
        sync_cube();
        scratch[split * lanes + lane] = value;
        sync_cube();
        let levels = comptime!((splits.ilog2() as usize).div_ceil(3));
        #[unroll]
        for level in 1..levels {
            // Units that are left.
            let left = comptime!(splits >> (3 * level));
            if split < left {
                scratch[split * lanes + lane] =
                    eight::<A, V>(&scratch, split * lanes + lane, left * lanes, 8usize, fold);
            }
            sync_cube();
        }
        let left = comptime!(splits >> (3 * (levels - 1)));
        eight::<A, V>(&scratch, lane, lanes, left, fold)
    }
}

/// What `count` values fold into, eight at most, the first at `from`.
#[cube]
fn eight<A: Float, V: Size>(
    scratch: &Shared<[Vector<A, V>]>,
    from: usize,
    #[comptime] stride: usize,
    #[comptime] count: usize,
    #[comptime] fold: Fold,
) -> Vector<A, V> {
    let mut parts = Array::<Vector<A, V>>::new(count);
    #[unroll]
    for i in 0..count {
        parts[i] = scratch[from + i * stride];
    }
    #[unroll]
    for step in 0..comptime!(count.ilog2()) {
        let half = comptime!(count >> (step + 1));
        #[unroll]
        for i in 0..half {
            let (a, b) = (parts[i], parts[comptime!(i + half)]);
            parts[i] = if comptime!(fold == Fold::Sum) { a + b } else { max(a, b) };
        }
    }
    parts[0]
}
