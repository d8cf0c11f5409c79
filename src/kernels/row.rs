//! Rows in memory: where they lie, loading and storing them.
//!
//! A row is worked on in vectors. Its last one may have fewer elements than the others where the device
//! takes memory by address ([`Ends::ragged`]); there rows may also lie so that vectors are not
//! aligned. In both cases elements are loaded and stored one by one, into the same places of the same
//! vectors, so that results are the same bits.

use super::{
    plan::{Blueprint, Ends},
    stored::rounded,
};
use cubecl::prelude::*;

/// Where rows lie. Strides are counted in vectors where those are aligned, in elements elsewhere.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Rows {
    sizes: Sequence<usize>,
    strides: Sequence<usize>,
    #[cube(comptime)]
    aligned: bool,
}

#[cube]
impl Rows {
    /// The position of a row's first vector or element.
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

    pub fn row(&self, row: usize) -> Row {
        Row { from: self.offset(row), aligned: self.aligned, room: self.aligned }
    }
}

/// Where rows lie that are all as far apart.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct EvenRows {
    stride: usize,
    #[cube(comptime)]
    aligned: bool,
}

#[cube]
impl EvenRows {
    /// The position of a row's first vector or element.
    pub fn offset(&self, row: usize) -> usize {
        row * self.stride
    }

    pub fn row(&self, row: usize) -> Row {
        Row { from: self.offset(row), aligned: self.aligned, room: false }
    }
}

/// Where a row begins, counted as its [`Rows`]' strides are.
#[derive(CubeType)]
pub(crate) struct Row {
    from: usize,
    #[cube(comptime)]
    aligned: bool,
    /// Whether a whole vector can be loaded, and ignored in part, where the row ends.
    #[cube(comptime)]
    room: bool,
}

#[cube]
impl Row {
    /// That of a parameter.
    pub fn only() -> Row {
        Row::aligned(0usize.runtime())
    }

    /// One whose vectors are aligned.
    pub fn aligned(from: usize) -> Row {
        Row { from, aligned: true, room: false }
    }
}

/// How long rows are.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Length {
    /// Elements.
    pub columns: usize,
    pub vectors: usize,
}

impl LengthLaunch {
    /// Rows of `columns` elements in vectors of `width`.
    pub(crate) fn of(columns: usize, width: usize) -> Self {
        Self::new(columns, columns.div_ceil(width))
    }
}

/// Whether `column` is one of the row's vectors.
#[cube]
pub(crate) fn is_inside(column: usize, length: &Length, #[comptime] ends: Ends) -> bool {
    if comptime!(ends.exact) { true.runtime() } else { column < length.vectors }
}

/// `value`, with `other` for what of it is past the row's end.
#[cube]
pub(crate) fn inside_or<T: Numeric, V: Size>(
    value: Vector<T, V>,
    other: T,
    column: usize,
    length: &Length,
    #[comptime] ends: Ends,
) -> Vector<T, V> {
    let inside = is_inside(column, length, ends);
    let value =
        if comptime!(ends.exact) { value } else { select(inside, value, Vector::new(other)) };
    if comptime!(ends.ragged && ends.tight) {
        cut::<T, V>(value, other, column, length)
    } else if comptime!(ends.ragged) {
        // Of the many vectors that may end the row one does.
        if column + 1 == length.vectors { cut::<T, V>(value, other, column, length) } else { value }
    } else {
        value
    }
}

/// `value` of a vector of the row, with `other` for the elements past its end.
#[cube]
fn cut<T: Numeric, V: Size>(
    value: Vector<T, V>,
    other: T,
    column: usize,
    length: &Length,
) -> Vector<T, V> {
    let mut value = value;
    let count = elements::<T, V>(column, length);
    #[unroll]
    for i in 1..value.vector_size() {
        value.insert(i, select(i < count, value.extract(i), other));
    }
    value
}

/// How many elements of the row are in and behind its vector `column`.
#[cube]
fn elements<T: Numeric, V: Size>(column: usize, length: &Length) -> usize {
    let width = Vector::<T, V>::zero().vector_size();
    length.columns - column * width
}

/// The vector at `column`, zero past the row's end.
#[cube]
pub(crate) fn read<T: Numeric, V: Size>(
    source: &[Vector<T, V>],
    row: &Row,
    column: usize,
    length: &Length,
    #[comptime] ends: Ends,
) -> Vector<T, V> {
    let value = read_any(source, row, column, length, ends);
    inside_or(value, T::from_int(0), column, length, ends)
}

/// The vector at `column`, anything past the row's end.
#[cube]
pub(crate) fn read_any<T: Numeric, V: Size>(
    source: &[Vector<T, V>],
    row: &Row,
    column: usize,
    length: &Length,
    #[comptime] ends: Ends,
) -> Vector<T, V> {
    let (aligned, room) = (row.aligned, row.room);
    let whole = !ends.ragged;
    let at = if comptime!(ends.exact) { column } else { usize::min(column, length.vectors - 1) };
    if comptime!(aligned && (whole || room)) {
        source[row.from + at]
    } else if comptime!(whole) {
        gathered::<T, V>(source, row, at, length, true)
    } else if at + 1 == length.vectors {
        gathered::<T, V>(source, row, at, length, false)
    } else if comptime!(aligned) {
        source[row.from + at]
    } else {
        gathered::<T, V>(source, row, at, length, true)
    }
}

/// A vector of single elements, `whole` or anything past the row's end.
#[cube]
fn gathered<T: Numeric, V: Size>(
    source: &[Vector<T, V>],
    row: &Row,
    column: usize,
    length: &Length,
    #[comptime] whole: bool,
) -> Vector<T, V> {
    let mut value = Vector::<T, V>::zero();
    let width = value.vector_size();
    let single = source.with_vector_size::<Const<1>>();
    let first = first_element(row, column, width);
    let last = elements::<T, V>(column, length) - 1;
    #[unroll]
    for i in 0..width {
        let at = if comptime!(whole) { i.runtime() } else { usize::min(i.runtime(), last) };
        value.insert(i, single[first + at].extract(0usize));
    }
    value
}

/// The position of a vector's first element.
#[cube]
fn first_element(row: &Row, column: usize, #[comptime] width: usize) -> usize {
    let aligned = row.aligned;
    if comptime!(aligned) { (row.from + column) * width } else { row.from + column * width }
}

/// Loads the vectors of one unit: `start`, then every `lanes`-th. Past the row's end it holds
/// zeros, which add nothing to a sum.
#[cube]
pub(crate) fn load<T: Numeric, V: Size>(
    source: &[Vector<T, V>],
    row: &Row,
    start: usize,
    length: &Length,
    into: &mut Array<Vector<T, V>>,
    #[comptime] blueprint: Blueprint,
) {
    load_any(source, row, start, length, into, 0usize, blueprint);
    fill_past_end(into, T::from_int(0), start, length, blueprint);
}

/// Makes `value` what of a unit's vectors is past the row's end.
#[cube]
pub(crate) fn fill_past_end<T: Numeric, V: Size>(
    held: &mut Array<Vector<T, V>>,
    value: T,
    start: usize,
    length: &Length,
    #[comptime] blueprint: Blueprint,
) {
    #[unroll]
    for i in 0..blueprint.held {
        let ends = comptime!(blueprint.ends_of(i));
        let column = start + i * blueprint.lanes;
        held[i] = inside_or(held[i], value, column, length, ends);
    }
}

/// [`load`] into the places from `at` on, but anything past the row's end: to make that zero would be
/// to wait for what is loaded ahead.
#[cube]
pub(crate) fn load_any<T: Numeric, V: Size>(
    source: &[Vector<T, V>],
    row: &Row,
    start: usize,
    length: &Length,
    into: &mut Array<Vector<T, V>>,
    #[comptime] at: usize,
    #[comptime] blueprint: Blueprint,
) {
    #[unroll]
    for i in 0..blueprint.held {
        let ends = comptime!(blueprint.ends_of(i));
        into[comptime!(at + i)] = read_any(source, row, start + i * blueprint.lanes, length, ends);
    }
}

/// The chunks of a row.
#[cube]
pub(crate) fn chunks(length: &Length, #[comptime] blueprint: Blueprint) -> usize {
    length.vectors.div_ceil(comptime!(blueprint.held * blueprint.lanes))
}

/// Stores, rounded, where [`load`] read, if the row is the unit's `own`.
#[cube]
pub(crate) fn store<A: Numeric, T: Numeric, V: Size>(
    target: &mut [Vector<T, V>],
    row: &Row,
    column: usize,
    length: &Length,
    own: bool,
    value: Vector<A, V>,
    #[comptime] ends: Ends,
) {
    let value = rounded::<A, T, V>(value);
    let aligned = row.aligned;
    if own && is_inside(column, length, ends) {
        if comptime!(ends.ragged) {
            if column + 1 == length.vectors {
                scatter::<T, V>(target, row, column, length, value, false);
            } else if comptime!(aligned) {
                target[row.from + column] = value;
            } else {
                scatter::<T, V>(target, row, column, length, value, true);
            }
        } else if comptime!(aligned) {
            target[row.from + column] = value;
        } else {
            scatter::<T, V>(target, row, column, length, value, true);
        }
    }
}

/// Stores a vector's elements, all or those that are inside the row.
#[cube]
fn scatter<T: Numeric, V: Size>(
    target: &mut [Vector<T, V>],
    row: &Row,
    column: usize,
    length: &Length,
    value: Vector<T, V>,
    #[comptime] whole: bool,
) {
    let width = value.vector_size();
    let first = first_element(row, column, width);
    let count = elements::<T, V>(column, length);
    let single = target.with_vector_size_mut::<Const<1>>();
    #[unroll]
    for i in 0..width {
        let inside = if comptime!(whole) { true.runtime() } else { i < count };
        if inside {
            single[first + i] = Vector::new(value.extract(i));
        }
    }
}
