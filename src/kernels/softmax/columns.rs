//! Along another dimension than the last. Units next to one another have columns next to one another,
//! so that memory is read and written as it lies; those that share a column meet in shared memory.

use super::{
    Backward, Extent, Forward,
    exponentials::{
        Exponentials, Form, exp, exponential, gradient, gradient_term, output, scale, share,
    },
};
use crate::kernels::{
    plan::{ColumnBlueprint, Pass, address, cubes},
    row::{EvenRows, Rows},
    stored::{rounded, widened},
    sums::RunningSum,
    team::{Fold, fold_columns},
};
use cubecl::{CubeCount, CubeDim, client::Client, ir::ElemType, prelude::*};

struct Launch {
    /// Vectors of columns next to one another.
    inner: usize,
    blueprint: ColumnBlueprint,
    count: CubeCount,
    dim: CubeDim,
}

fn launch(pass: Pass, extent: Extent, size: usize, client: &Client) -> Launch {
    let Extent { outer, length, inner, width, hardware } = extent;
    let inner = inner / width;
    let blueprint = ColumnBlueprint::new(pass, length, inner, width, size, hardware);
    log::trace!("Softmax {pass:?}: {outer}×{length}×{inner} of {size} bytes, {blueprint:?}");
    Launch {
        inner,
        blueprint,
        count: cubes((outer * inner).div_ceil(blueprint.lanes), 1, client),
        dim: CubeDim::new_2d(blueprint.lanes as u32, blueprint.splits as u32),
    }
}

pub(super) fn forward(call: Forward, client: &Client) {
    let Forward { extent, types, log, x, y } = call;
    let Launch { inner, blueprint, count, dim } =
        launch(Pass::Forward, extent, types.x.size(), client);
    let address_type = address(y.rows.len(extent.outer).max(x.matrix.len));
    let width = extent.width;
    let (x_stride, y_stride) = (x.stride / width, y.stride / width);
    let (x, x_outer) = x.matrix.args(width);
    let (y, y_outer) = y.rows.args(extent.outer, width);
    // SAFETY: lengths are what the handles span; rows and columns past the end are not written, and
    // read as the last ones. Where `y` is `x`, a unit writes what only it has use for, and has read.
    unsafe {
        softmax_down_columns_kernel::launch_unchecked(
            client,
            count,
            dim,
            address_type,
            width,
            x,
            y,
            x_outer,
            y_outer,
            x_stride,
            y_stride,
            extent.outer,
            extent.length,
            inner,
            Form::new(log, types),
            blueprint,
            types.x,
            types.accumulator,
        );
    }
}

pub(super) fn backward(call: Backward, client: &Client) {
    let Backward { extent, types, log, dy, y, dx } = call;
    let Launch { inner, blueprint, count, dim } =
        launch(Pass::Backward, extent, types.x.size(), client);
    let address_type = address(dx.rows.len(extent.outer).max(dy.matrix.len).max(y.matrix.len));
    let width = extent.width;
    let (dy_stride, y_stride, dx_stride) = (dy.stride / width, y.stride / width, dx.stride / width);
    let (dy, dy_outer) = dy.matrix.args(width);
    let (y, y_outer) = y.matrix.args(width);
    let (dx, dx_outer) = dx.rows.args(extent.outer, width);
    // SAFETY: as for the forward pass.
    unsafe {
        softmax_down_columns_backward_kernel::launch_unchecked(
            client,
            count,
            dim,
            address_type,
            width,
            dy,
            y,
            dx,
            dy_outer,
            y_outer,
            dx_outer,
            dy_stride,
            y_stride,
            dx_stride,
            extent.outer,
            extent.length,
            inner,
            log,
            blueprint,
            types.x,
            types.accumulator,
        );
    }
}

/// The place of a unit: its column, or the last one where there are more units than columns, and
/// whether it has one of its own.
#[derive(CubeType)]
struct Place {
    outer: usize,
    inner: usize,
    own: bool,
}

#[cube]
fn place(outer: usize, inner: usize, #[comptime] blueprint: ColumnBlueprint) -> Place {
    let columns = outer * inner;
    let column = CUBE_POS * blueprint.lanes + UNIT_POS_X as usize;
    let own = column < columns;
    let column = usize::min(column, columns - 1);
    Place { outer: column / inner, inner: column % inner, own }
}

/// Loads a unit's vectors of a column: from `start`, every `splits`-th. Past the end it holds zeros.
#[cube]
fn load<F: Numeric, V: Size>(
    source: &[Vector<F, V>],
    from: usize,
    stride: usize,
    start: usize,
    length: usize,
    into: &mut Array<Vector<F, V>>,
    #[comptime] blueprint: ColumnBlueprint,
) {
    #[unroll]
    for i in 0..blueprint.held {
        let at = start + i * blueprint.splits;
        let value = source[from + usize::min(at, length - 1) * stride];
        into[i] = select(at < length, value, Vector::zero());
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn softmax_down_columns_kernel<F: Numeric, A: Float, V: Size>(
    x: &[Vector<F, V>],
    y: &mut [Vector<F, V>],
    x_outer: Rows,
    y_outer: EvenRows,
    x_stride: usize,
    y_stride: usize,
    outer: usize,
    length: usize,
    inner: usize,
    #[comptime] form: Form,
    #[comptime] blueprint: ColumnBlueprint,
    #[define(F)] _x_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let (lanes, splits) = comptime!((blueprint.lanes, blueprint.splits));
    let split = UNIT_POS_Y as usize;
    let chunk = comptime!(blueprint.held * blueprint.splits);
    let place = place(outer, inner, blueprint);
    let from = x_outer.offset(place.outer) + place.inner;
    let to = y_outer.offset(place.outer) + place.inner;
    let mut held = Array::<Vector<F, V>>::new(blueprint.held);
    if comptime!(blueprint.chunked) {
        let mut exponentials = Exponentials::<A, V>::new();
        let mut start = split;
        while start < length + split {
            load(x, from, x_stride, start, length, &mut held, blueprint);
            let base = exponentials.raise(largest::<F, A, V>(&held, start, length, blueprint));
            exponentials.add(sum::<F, A, V>(&held, base, start, length, blueprint));
            start += chunk;
        }
        let largest = fold_columns::<A, V>(exponentials.largest, lanes, splits, Fold::Max);
        let total = exponentials.total(largest);
        let total = fold_columns::<A, V>(total, lanes, splits, Fold::Sum);
        let scale = scale::<A, V>(total, form);
        if place.own {
            let mut start = split;
            while start < length {
                load(x, from, x_stride, start, length, &mut held, blueprint);
                #[unroll]
                for i in 0..blueprint.held {
                    let at = start + i * blueprint.splits;
                    if at < length {
                        let value = widened::<F, A, V>(held[i]);
                        let value = output::<A, V>(value, largest, scale, form);
                        y[to + at * y_stride] = rounded::<A, F, V>(value);
                    }
                }
                start += chunk;
            }
        }
    } else {
        load(x, from, x_stride, split, length, &mut held, blueprint);
        let largest = largest::<F, A, V>(&held, split, length, blueprint);
        let largest = fold_columns::<A, V>(largest, lanes, splits, Fold::Max);
        // Exponentials are computed once; their logarithms are not.
        let mut values = Array::<Vector<A, V>>::new(blueprint.held);
        let mut total = Vector::<A, V>::zero();
        #[unroll]
        for i in 0..blueprint.held {
            let value = widened::<F, A, V>(held[i]);
            values[i] =
                if comptime!(form.log) { value } else { exponential::<A, V>(value, largest, form) };
            let term = if comptime!(form.log) { exp::<A, V>(value - largest) } else { values[i] };
            total += select(split + i * blueprint.splits < length, term, Vector::zero());
        }
        let total = fold_columns::<A, V>(total, lanes, splits, Fold::Sum);
        let scale = scale::<A, V>(total, form);
        if place.own {
            #[unroll]
            for i in 0..blueprint.held {
                let at = split + i * blueprint.splits;
                if at < length {
                    let value = if comptime!(form.log) {
                        output::<A, V>(values[i], largest, scale, form)
                    } else {
                        share::<A, V>(values[i], scale, form)
                    };
                    y[to + at * y_stride] = rounded::<A, F, V>(value);
                }
            }
        }
    }
}

/// The largest of the held values, or the least finite number if all are −∞.
#[cube]
fn largest<F: Numeric, A: Float, V: Size>(
    held: &Array<Vector<F, V>>,
    start: usize,
    length: usize,
    #[comptime] blueprint: ColumnBlueprint,
) -> Vector<A, V> {
    let least = Vector::<A, V>::new(A::min_value());
    let mut largest = least;
    #[unroll]
    for i in 0..blueprint.held {
        let inside = start + i * blueprint.splits < length;
        largest = max(largest, select(inside, widened::<F, A, V>(held[i]), least));
    }
    largest
}

/// The sum of the exponentials of what is held, less `base`.
#[cube]
fn sum<F: Numeric, A: Float, V: Size>(
    held: &Array<Vector<F, V>>,
    base: Vector<A, V>,
    start: usize,
    length: usize,
    #[comptime] blueprint: ColumnBlueprint,
) -> Vector<A, V> {
    let mut sum = Vector::<A, V>::zero();
    #[unroll]
    for i in 0..blueprint.held {
        let inside = start + i * blueprint.splits < length;
        let term = exp::<A, V>(widened::<F, A, V>(held[i]) - base);
        sum += select(inside, term, Vector::zero());
    }
    sum
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn softmax_down_columns_backward_kernel<F: Numeric, A: Float, V: Size>(
    dy: &[Vector<F, V>],
    y: &[Vector<F, V>],
    dx: &mut [Vector<F, V>],
    dy_outer: Rows,
    y_outer: Rows,
    dx_outer: EvenRows,
    dy_stride: usize,
    y_stride: usize,
    dx_stride: usize,
    outer: usize,
    length: usize,
    inner: usize,
    #[comptime] log: bool,
    #[comptime] blueprint: ColumnBlueprint,
    #[define(F)] _x_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let (lanes, splits) = comptime!((blueprint.lanes, blueprint.splits));
    let split = UNIT_POS_Y as usize;
    let chunk = comptime!(blueprint.held * blueprint.splits);
    let place = place(outer, inner, blueprint);
    let from_dy = dy_outer.offset(place.outer) + place.inner;
    let from_y = y_outer.offset(place.outer) + place.inner;
    let to = dx_outer.offset(place.outer) + place.inner;
    let mut dys = Array::<Vector<F, V>>::new(blueprint.held);
    let mut ys = Array::<Vector<F, V>>::new(blueprint.held);
    let sum = if comptime!(blueprint.chunked) {
        let mut sum = RunningSum::<A, V>::new();
        let mut start = split;
        while start < length + split {
            load(dy, from_dy, dy_stride, start, length, &mut dys, blueprint);
            load(y, from_y, y_stride, start, length, &mut ys, blueprint);
            sum.add(gradient_terms::<F, A, V>(&dys, &ys, log, blueprint));
            start += chunk;
        }
        sum.total()
    } else {
        load(dy, from_dy, dy_stride, split, length, &mut dys, blueprint);
        load(y, from_y, y_stride, split, length, &mut ys, blueprint);
        gradient_terms::<F, A, V>(&dys, &ys, log, blueprint)
    };
    let sum = fold_columns::<A, V>(sum, lanes, splits, Fold::Sum);
    if place.own {
        let mut start = split;
        while start < length {
            if comptime!(blueprint.chunked) {
                load(dy, from_dy, dy_stride, start, length, &mut dys, blueprint);
                load(y, from_y, y_stride, start, length, &mut ys, blueprint);
            }
            #[unroll]
            for i in 0..blueprint.held {
                let at = start + i * blueprint.splits;
                if at < length {
                    let (dy, y) = (widened::<F, A, V>(dys[i]), widened::<F, A, V>(ys[i]));
                    let value = gradient::<A, V>(dy, y, sum, log);
                    dx[to + at * dx_stride] = rounded::<A, F, V>(value);
                }
            }
            start += chunk;
        }
    }
}

/// Past the column's end `dy` is zero, and so are the terms.
#[cube]
fn gradient_terms<F: Numeric, A: Float, V: Size>(
    dys: &Array<Vector<F, V>>,
    ys: &Array<Vector<F, V>>,
    #[comptime] log: bool,
    #[comptime] blueprint: ColumnBlueprint,
) -> Vector<A, V> {
    let mut sum = Vector::<A, V>::zero();
    #[unroll]
    for i in 0..blueprint.held {
        let (dy, y) = (widened::<F, A, V>(dys[i]), widened::<F, A, V>(ys[i]));
        sum += gradient_term::<A, V>(dy, y, log);
    }
    sum
}
