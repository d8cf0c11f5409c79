//! Rows that a team takes in turn, each loaded while the one before it is worked on.

use super::{
    plan::Blueprint,
    row::{Length, Rows, fill_past_end, load_any},
    team::lane,
};
use cubecl::prelude::*;

/// A unit's part of the row that comes next.
#[derive(CubeType)]
pub(crate) struct Coming<T: Numeric, V: Size> {
    vectors: Array<Vector<T, V>>,
    /// Rows from one of the team's to its next.
    stride: usize,
    /// All rows.
    count: usize,
    #[cube(comptime)]
    blueprint: Blueprint,
}

#[cube]
impl<T: Numeric, V: Size> Coming<T, V> {
    /// Loads the first row of a team that takes every `stride`-th of `count`. Past the last row, that one.
    pub fn new(
        source: &[Vector<T, V>],
        rows: &Rows,
        first: usize,
        stride: usize,
        count: usize,
        length: &Length,
        #[comptime] blueprint: Blueprint,
    ) -> Self {
        let mut vectors = Array::<Vector<T, V>>::new(blueprint.held);
        let row = rows.row(usize::min(first, count - 1));
        load_any(source, &row, lane(blueprint), length, &mut vectors, 0usize, blueprint);
        Coming::<T, V> { vectors, stride, count, blueprint }
    }

    /// `row`, the team's next, zero past its end. The one that follows is loaded before
    /// this one's barriers, so that reading goes on while units wait.
    pub fn take(
        &mut self,
        source: &[Vector<T, V>],
        rows: &Rows,
        row: usize,
        length: &Length,
        into: &mut Array<Vector<T, V>>,
    ) {
        let blueprint = self.blueprint;
        let lane = lane(blueprint);
        #[unroll]
        for i in 0..blueprint.held {
            into[i] = self.vectors[i];
        }
        fill_past_end(into, T::from_int(0), lane, length, blueprint);
        // A branch, past which NVIDIA's assembler does not move the loads, as it does otherwise.
        if row + self.stride < self.count {
            let next = rows.row(row + self.stride);
            load_any(source, &next, lane, length, &mut self.vectors, 0usize, blueprint);
        }
    }
}
