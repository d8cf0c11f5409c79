//! What a row is read from, and what of it stays in shared memory.

use super::{
    plan::{Blueprint, Ends},
    row::{Length, Row, fill_past_end, load_any, read_any},
    stored::added,
};
use cubecl::prelude::*;

/// A row of a matrix, or the sum of two rows.
#[derive(CubeType)]
pub(crate) struct Source<'a, 'b, T: Numeric, V: Size> {
    first: &'a [Vector<T, V>],
    first_row: Row,
    second: ComptimeOption<&'b [Vector<T, V>]>,
    second_row: ComptimeOption<Row>,
}

#[cube]
impl<'a, 'b, T: Numeric, V: Size> Source<'a, 'b, T, V> {
    pub fn of(matrix: &'a [Vector<T, V>], row: Row) -> Self {
        Source::<'a, 'b, T, V> {
            first: matrix,
            first_row: row,
            second: ComptimeOption::new_None(),
            second_row: ComptimeOption::new_None(),
        }
    }

    /// The sum, rounded to its type, if there is a second matrix.
    pub fn sum(
        first: &'a [Vector<T, V>],
        first_row: Row,
        second: ComptimeOption<&'b [Vector<T, V>]>,
        second_row: ComptimeOption<Row>,
    ) -> Self {
        Source::<'a, 'b, T, V> { first, first_row, second, second_row }
    }

    /// Loads the vectors of one unit: `start`, then every `lanes`-th. Past the row's end it holds
    /// zeros, which add nothing to a sum.
    pub fn load(
        &self,
        start: usize,
        length: &Length,
        into: &mut Array<Vector<T, V>>,
        #[comptime] blueprint: Blueprint,
    ) {
        self.load_any(start, length, into, blueprint);
        fill_past_end(into, T::from_int(0), start, length, blueprint);
    }

    /// [`load`](Self::load), but anything past the row's end.
    pub fn load_any(
        &self,
        start: usize,
        length: &Length,
        into: &mut Array<Vector<T, V>>,
        #[comptime] blueprint: Blueprint,
    ) {
        load_any(self.first, &self.first_row, start, length, into, 0usize, blueprint);
        #[comptime]
        match self.second {
            ComptimeOption::Some(second) => {
                let row = self.second_row.as_ref().unwrap();
                let mut others = Array::<Vector<T, V>>::new(blueprint.held);
                load_any(second, row, start, length, &mut others, 0usize, blueprint);
                #[unroll]
                for i in 0..blueprint.held {
                    into[i] = added::<T, V>(into[i], others[i]);
                }
            }
            ComptimeOption::None => {}
        }
    }

    /// The vector at `column`, anything past the row's end.
    pub fn any(&self, column: usize, length: &Length, #[comptime] ends: Ends) -> Vector<T, V> {
        let mut value = read_any(self.first, &self.first_row, column, length, ends);
        #[comptime]
        match self.second {
            ComptimeOption::Some(second) => {
                let row = self.second_row.as_ref().unwrap();
                value = added::<T, V>(value, read_any(second, row, column, length, ends));
            }
            ComptimeOption::None => {}
        }
        value
    }
}

/// What stays in shared memory of a row that is read in chunks more than once. A unit meets its own
/// vectors only.
#[derive(CubeType)]
pub(crate) struct Kept<T: Numeric, V: Size> {
    vectors: ComptimeOption<Shared<[Vector<T, V>]>>,
    #[cube(comptime)]
    blueprint: Blueprint,
}

#[cube]
impl<T: Numeric, V: Size> Kept<T, V> {
    pub fn new(#[comptime] blueprint: Blueprint) -> Self {
        let vectors = if comptime!(blueprint.kept > 0) {
            ComptimeOption::new_Some(Shared::<[Vector<T, V>]>::new_slice(blueprint.kept))
        } else {
            ComptimeOption::new_None()
        };
        Kept::<T, V> { vectors, blueprint }
    }

    /// Loads a chunk for the first time, and keeps it if there is room.
    pub fn load(
        &mut self,
        source: &Source<T, V>,
        start: usize,
        length: &Length,
        into: &mut Array<Vector<T, V>>,
    ) {
        source.load(start, length, into, self.blueprint);
        self.keep(start, into);
    }

    /// Keeps a chunk if there is room.
    pub fn keep(&mut self, start: usize, held: &mut Array<Vector<T, V>>) {
        let blueprint = self.blueprint;
        #[comptime]
        match self.vectors.as_mut() {
            ComptimeOption::Some(kept) => {
                if start < blueprint.kept {
                    #[unroll]
                    for i in 0..blueprint.held {
                        kept[start + i * blueprint.lanes] = held[i];
                    }
                }
            }
            ComptimeOption::None => {}
        }
    }

    /// The chunk again.
    pub fn load_again(
        &self,
        source: &Source<T, V>,
        start: usize,
        length: &Length,
        into: &mut Array<Vector<T, V>>,
    ) {
        let blueprint = self.blueprint;
        #[comptime]
        match self.vectors.as_ref() {
            ComptimeOption::Some(kept) => {
                if start < blueprint.kept {
                    #[unroll]
                    for i in 0..blueprint.held {
                        into[i] = kept[start + i * blueprint.lanes];
                    }
                } else {
                    source.load(start, length, into, blueprint);
                }
            }
            ComptimeOption::None => source.load(start, length, into, blueprint),
        }
    }
}
