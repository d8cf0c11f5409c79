//! One row and the team of units that works on it: layout, loading, summing.

use super::plan::Blueprint;
use cubecl::{prelude::*, server::Handle};

/// A matrix in device memory: rows anywhere, the elements of each next to one another.
pub(crate) struct Matrix {
    pub handle: Handle,
    /// Elements that `handle` spans.
    pub len: usize,
    /// Size and stride, in elements, of the dimensions that rows are counted by, outermost first.
    pub rows: Vec<(usize, usize)>,
}

impl Matrix {
    /// The kernel's arguments for vectors of `width` elements.
    pub(crate) fn args(self, width: usize) -> (BufferArg, RowsLaunch) {
        let (sizes, strides) = (self.rows.iter().map(|(size, _)| *size), &self.rows);
        let rows = RowsLaunch::new(
            sizes.collect::<SequenceArg<usize>>(),
            strides.iter().map(|(_, stride)| stride / width).collect::<SequenceArg<usize>>(),
        );
        // SAFETY: `len` is what the handle spans.
        (unsafe { BufferArg::from_raw_parts(self.handle, self.len) }, rows)
    }
}

/// A buffer that a kernel writes whole.
pub(crate) enum Target {
    /// One of its own.
    New(Handle),
    /// That of the kernel's first argument, which nothing else uses.
    First,
}

impl Target {
    pub(crate) fn arg(self, len: usize) -> BufferArg {
        match self {
            // SAFETY: callers give the length that the buffer was made with.
            Self::New(handle) => unsafe { BufferArg::from_raw_parts(handle, len) },
            Self::First => BufferArg::alias(0, len),
        }
    }
}

/// Where rows lie: strides are counted in vectors.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Rows {
    sizes: Sequence<usize>,
    strides: Sequence<usize>,
}

#[cube]
impl Rows {
    /// The position of a row's first vector.
    pub fn offset(&self, row: usize) -> usize {
        let rank = comptime!(self.sizes.len());
        let mut rest = row;
        let mut offset = 0usize;
        #[unroll]
        for i in 1..rank {
            let dim = comptime!(rank - i);
            let size = *self.sizes.index(dim);
            offset += (rest % size) * *self.strides.index(dim);
            rest /= size;
        }
        offset + rest * *self.strides.index(0usize)
    }
}

/// Whether `column` is one of the row's.
#[cube]
pub(crate) fn is_inside(column: usize, vectors: usize, #[comptime] blueprint: Blueprint) -> bool {
    if comptime!(blueprint.exact) { true.runtime() } else { column < vectors }
}

/// `column`, or the last one of the row where that is past its end.
#[cube]
pub(crate) fn bounded(column: usize, vectors: usize, #[comptime] blueprint: Blueprint) -> usize {
    if comptime!(blueprint.exact) { column } else { usize::min(column, vectors - 1) }
}

/// Loads the vectors of one unit: `start`, then every `lanes`-th. Past the row's end it holds
/// zeros, which add nothing to a sum.
#[cube]
pub(crate) fn load<T: Float, V: Size>(
    source: &[Vector<T, V>],
    row: usize,
    start: usize,
    vectors: usize,
    into: &mut Array<Vector<T, V>>,
    #[comptime] blueprint: Blueprint,
) {
    #[unroll]
    for i in 0..blueprint.held {
        let column = start + i * blueprint.lanes;
        let value = source[row + bounded(column, vectors, blueprint)];
        if comptime!(blueprint.exact) {
            into[i] = value;
        } else {
            into[i] = select(column < vectors, value, Vector::zero());
        }
    }
}

/// Stores where [`load`] read.
#[cube]
pub(crate) fn store<T: Float, V: Size>(
    target: &mut [Vector<T, V>],
    row: usize,
    column: usize,
    vectors: usize,
    value: Vector<T, V>,
    #[comptime] blueprint: Blueprint,
) {
    if is_inside(column, vectors, blueprint) {
        target[row + column] = value;
    }
}

/// Terms of a [`RunningSum`] that are added up before they are added to its total.
const RUN: usize = 64;

/// A sum of many vectors, in two steps, so that its error grows with the fourth root of their
/// number and not with its square root. Infinities stay infinite, which a compensated sum's don't.
#[derive(CubeType)]
pub(crate) struct RunningSum<A: Float, V: Size> {
    total: Vector<A, V>,
    run: Vector<A, V>,
    terms: usize,
}

#[cube]
impl<A: Float, V: Size> RunningSum<A, V> {
    pub fn new() -> Self {
        RunningSum::<A, V> {
            total: Vector::<A, V>::zero(),
            run: Vector::<A, V>::zero(),
            terms: 0usize,
        }
    }

    pub fn add(&mut self, term: Vector<A, V>) {
        self.run += term;
        self.terms += 1;
        if self.terms == RUN {
            self.total += self.run;
            self.run = Vector::<A, V>::zero();
            self.terms = 0usize;
        }
    }

    /// Multiplies the sum.
    pub fn scale(&mut self, factor: Vector<A, V>) {
        self.total *= factor;
        self.run *= factor;
    }

    pub fn total(&self) -> Vector<A, V> {
        self.total + self.run
    }
}

/// The place of this unit's team in the launch: its row, or its group of rows.
#[cube]
pub(crate) fn team_position(#[comptime] teams: usize) -> usize {
    if comptime!(teams == 1) {
        // Not from the unit's position: barriers ask for control flow seen to be uniform.
        CUBE_POS
    } else {
        CUBE_POS * teams + UNIT_POS_Y as usize
    }
}

/// The sum of a vector's elements, in order.
#[cube]
pub(crate) fn elements_sum<A: Float, V: Size>(vector: Vector<A, V>) -> A {
    let mut sum = vector.extract(0usize);
    #[unroll]
    for i in 1..vector.vector_size() {
        sum += vector.extract(i);
    }
    sum
}

/// The largest of a vector's elements.
#[cube]
pub(crate) fn elements_max<A: Float, V: Size>(vector: Vector<A, V>) -> A {
    let mut largest = vector.extract(0usize);
    #[unroll]
    for i in 1..vector.vector_size() {
        largest = max(largest, vector.extract(i));
    }
    largest
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

#[cube]
fn plane_folded<A: Float>(value: A, #[comptime] fold: Fold) -> A {
    if comptime!(fold == Fold::Sum) { plane_sum(value) } else { plane_max(value) }
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
}

/// Values that a fold takes from each unit at most.
const VALUES: usize = 2;

#[cube]
impl<A: Float> Team<A> {
    pub fn new(#[comptime] blueprint: Blueprint) -> Self {
        let sharers = comptime!(blueprint.sharers());
        let scratch = if comptime!(sharers > 0) {
            ComptimeOption::new_Some(Shared::<[A]>::new_slice(comptime!(2 * VALUES * sharers)))
        } else {
            ComptimeOption::new_None()
        };
        Team::<A> { scratch, phase: 0usize, blueprint }
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
        let sharers = comptime!(blueprint.sharers());
        let base = self.phase * comptime!(VALUES * sharers);
        if comptime!(blueprint.plane > 1) {
            #[unroll]
            for i in 0..count {
                values[i] = plane_folded::<A>(values[i], fold);
            }
        }
        #[comptime]
        match self.scratch.as_mut() {
            ComptimeOption::Some(scratch) => {
                if comptime!(blueprint.plane > 1) {
                    if UNIT_POS_PLANE == 0 {
                        #[unroll]
                        for i in 0..count {
                            scratch[base + i * sharers + PLANE_POS as usize] = values[i];
                        }
                    }
                    sync_cube();
                    #[unroll]
                    for i in 0..count {
                        let mut value = scratch[base + i * sharers];
                        #[unroll]
                        for plane in 1..sharers {
                            let next = scratch[base + i * sharers + plane];
                            value = folded::<A>(value, next, fold);
                        }
                        values[i] = value;
                    }
                } else {
                    let unit = UNIT_POS_X as usize;
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
