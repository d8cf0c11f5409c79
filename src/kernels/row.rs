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
    let inside = if comptime!(blueprint.exact) { true.runtime() } else { column < vectors };
    if inside {
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

/// The sum of `value` over a row's team, given to each of its units. Every unit of the cube must
/// call it. `phase` alternates between 0 and 1 from call to call, so that one call's readers never
/// meet the next one's writers.
#[cube]
pub(crate) fn team_sum<A: Float>(value: A, phase: usize, #[comptime] blueprint: Blueprint) -> A {
    let lanes = blueprint.lanes;
    let plane = blueprint.plane;
    if comptime!(lanes == 1) {
        value
    } else if comptime!(plane == 1) {
        let mut scratch = Shared::<[A]>::new_slice(comptime!(2 * lanes));
        let base = phase * lanes;
        let unit = UNIT_POS_X as usize;
        scratch[base + unit] = value;
        sync_cube();
        #[unroll]
        for step in 0..comptime!(lanes.ilog2()) {
            let half = comptime!(lanes >> (step + 1));
            if unit < half {
                let other = scratch[base + unit + half];
                scratch[base + unit] += other;
            }
            sync_cube();
        }
        scratch[base]
    } else if comptime!(lanes == plane) {
        plane_sum(value)
    } else {
        let planes = comptime!(lanes / plane);
        let mut scratch = Shared::<[A]>::new_slice(comptime!(2 * planes));
        let base = phase * planes;
        let sum = plane_sum(value);
        if UNIT_POS_PLANE == 0 {
            scratch[base + PLANE_POS as usize] = sum;
        }
        sync_cube();
        let mut total = scratch[base];
        #[unroll]
        for i in 1..planes {
            total += scratch[base + i];
        }
        total
    }
}
