//! Rows that have parameters of their own in turn, as the heads of attention do.

use crate::kernels::row::{Length, Row};
use cubecl::prelude::*;

/// The rows with the same parameters: every `count`-th from `index` on, or all if there is no count.
#[derive(CubeType)]
pub(super) struct Head {
    index: usize,
    count: ComptimeOption<usize>,
}

#[cube]
impl Head {
    pub fn new(index: usize, count: ComptimeOption<usize>) -> Self {
        Head { index, count }
    }

    /// That of `row`.
    pub fn of_row(row: usize, count: ComptimeOption<usize>) -> Self {
        #[comptime]
        match count {
            ComptimeOption::Some(heads) => Head::new(row % heads, count),
            ComptimeOption::None => Head::new(0usize.runtime(), count),
        }
    }

    /// That of a place in a launch over `groups` of rows for each head, and the group. Of surplus cubes it is the
    /// last one.
    pub fn of_group(place: usize, groups: usize, count: ComptimeOption<usize>) -> (Head, usize) {
        #[comptime]
        match count {
            ComptimeOption::Some(heads) => {
                (Head::new(usize::min(place / groups, heads - 1), count), place % groups)
            }
            ComptimeOption::None => (Head::new(0usize.runtime(), count), place),
        }
    }

    /// Among all rows, the head's own `row`.
    pub fn row(&self, row: usize) -> usize {
        #[comptime]
        match self.count {
            ComptimeOption::Some(count) => row * count + self.index,
            ComptimeOption::None => row,
        }
    }

    /// All rows, given the head's own.
    pub fn all(&self, rows: usize) -> usize {
        #[comptime]
        match self.count {
            ComptimeOption::Some(count) => rows * count,
            ComptimeOption::None => rows,
        }
    }

    /// The head's parameters.
    pub fn parameters(&self, length: &Length) -> Row {
        #[comptime]
        match self.count {
            ComptimeOption::Some(_) => Row::aligned(self.index * length.vectors),
            ComptimeOption::None => Row::only(),
        }
    }

    /// Where the sums of a group begin, and those of all groups of all heads end.
    pub fn partials(&self, group: usize, groups: usize, length: &Length) -> (usize, usize) {
        (self.row(group) * length.vectors, self.all(groups) * length.vectors)
    }
}
