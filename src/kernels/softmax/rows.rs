//! Along the last dimension.

use super::{
    Backward, Extent, Forward,
    exponentials::{Exponentials, Form, exp, gradient, gradient_term, output, scale},
};
use crate::kernels::{
    plan::{Blueprint, Op, Pass, address, cubes},
    row::{EvenRows, Kept, Length, LengthLaunch, Row, Rows, inside_or, load, store},
    team::{RunningSum, Team, elements_max, elements_sum, lane, team_position},
};
use cubecl::{CubeCount, CubeDim, client::Client, ir::ElemType, prelude::*};

struct Launch {
    length: LengthLaunch,
    blueprint: Blueprint,
    count: CubeCount,
    dim: CubeDim,
}

fn launch(pass: Pass, extent: Extent, size: usize, client: &Client) -> Launch {
    let Extent { outer, length, width, hardware, .. } = extent;
    let blueprint = Blueprint::for_lengths(Op::Softmax, pass, length, width, size, hardware);
    Launch {
        length: LengthLaunch::of(length, width),
        blueprint,
        count: cubes(outer.div_ceil(blueprint.teams), 1, client),
        dim: blueprint.cube_dim(),
    }
}

pub(super) fn forward(call: Forward, client: &Client) {
    let Forward { extent, types, log, x, y } = call;
    let Launch { length, blueprint, count, dim } =
        launch(Pass::Forward, extent, types.x.size(), client);
    let address_type = address(y.rows.len(extent.outer).max(x.matrix.len));
    let (x, x_rows) = x.matrix.args(extent.width);
    let (y, y_rows) = y.rows.args(extent.outer, extent.width);
    // SAFETY: lengths are what the handles span; rows and columns past the end are not touched.
    // Where `y` is `x`, a unit writes what only it has use for, and has read; what others read
    // of that they discard.
    unsafe {
        forward_kernel::launch_unchecked(
            client,
            count,
            dim,
            address_type,
            extent.width,
            x,
            y,
            x_rows,
            y_rows,
            extent.outer,
            length,
            Form::new(log, types),
            blueprint,
            types.x,
            types.accumulator,
        );
    }
}

pub(super) fn backward(call: Backward, client: &Client) {
    let Backward { extent, types, log, dy, y, dx } = call;
    let Launch { length, blueprint, count, dim } =
        launch(Pass::Backward, extent, types.x.size(), client);
    let address_type = address(dx.rows.len(extent.outer).max(dy.matrix.len).max(y.matrix.len));
    let (dy, dy_rows) = dy.matrix.args(extent.width);
    let (y, y_rows) = y.matrix.args(extent.width);
    let (dx, dx_rows) = dx.rows.args(extent.outer, extent.width);
    // SAFETY: as for the forward pass.
    unsafe {
        backward_kernel::launch_unchecked(
            client,
            count,
            dim,
            address_type,
            extent.width,
            dy,
            y,
            dx,
            dy_rows,
            y_rows,
            dx_rows,
            extent.outer,
            length,
            Form::new(log, types),
            blueprint,
            types.x,
            types.accumulator,
        );
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn forward_kernel<F: Float, A: Float, V: Size>(
    x: &[Vector<F, V>],
    y: &mut [Vector<F, V>],
    x_rows: Rows,
    y_rows: EvenRows,
    rows: usize,
    length: Length,
    #[comptime] form: Form,
    #[comptime] blueprint: Blueprint,
    #[define(F)] _x_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let lane = lane(blueprint);
    let chunk = comptime!(blueprint.held * blueprint.lanes);
    let mut team = Team::<A>::new(!form.narrow, blueprint);
    let row = team_position(blueprint);
    // Every unit takes part where others wait for it.
    let own = row < rows;
    let row = usize::min(row, rows - 1);
    let from = x_rows.row(row);
    let to = y_rows.row(row);
    let mut held = Array::<Vector<F, V>>::new(blueprint.held);
    let mut start = lane;
    if comptime!(blueprint.chunked) {
        let mut kept = Kept::<F, V>::new(blueprint);
        let mut exponentials = Exponentials::<A, V>::new();
        while start < length.vectors + lane {
            kept.load(x, &from, start, &length, &mut held);
            let largest = largest::<F, A, V>(&mut held, start, &length, blueprint);
            let base = exponentials.raise(largest);
            exponentials.add(sum::<F, A, V>(&mut held, base, start, &length, blueprint));
            start += chunk;
        }
        let largest = team.max(elements_max::<A, V>(exponentials.largest));
        let largest = Vector::<A, V>::new(largest);
        let total = team.sum(elements_sum::<A, V>(exponentials.total(largest)));
        let scale = scale::<A, V>(Vector::new(total), form);
        let mut start = lane;
        while start < length.vectors + lane {
            kept.load_again(x, &from, start, &length, &mut held);
            write::<F, A, V>(
                &mut held, y, &to, start, &length, own, largest, scale, form, blueprint,
            );
            start += chunk;
        }
    } else {
        load(x, &from, start, &length, &mut held, blueprint);
        let largest = largest::<F, A, V>(&mut held, start, &length, blueprint);
        let largest = Vector::<A, V>::new(team.max(elements_max::<A, V>(largest)));
        let total = sum::<F, A, V>(&mut held, largest, start, &length, blueprint);
        let total = team.sum(elements_sum::<A, V>(total));
        let scale = scale::<A, V>(Vector::new(total), form);
        write::<F, A, V>(&mut held, y, &to, start, &length, own, largest, scale, form, blueprint);
    }
}

/// The largest of the held values, or the least finite number if all are −∞.
#[cube]
fn largest<F: Float, A: Float, V: Size>(
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
        let value = Vector::<A, V>::cast_from(held[i]);
        let value = inside_or(value, A::min_value(), column, length, ends);
        largest = max(largest, value);
    }
    largest
}

#[cube]
fn sum<F: Float, A: Float, V: Size>(
    held: &mut Array<Vector<F, V>>,
    largest: Vector<A, V>,
    start: usize,
    length: &Length,
    #[comptime] blueprint: Blueprint,
) -> Vector<A, V> {
    let mut sum = Vector::<A, V>::zero();
    #[unroll]
    for i in 0..blueprint.held {
        let ends = comptime!(blueprint.ends_of(i));
        let column = start + i * blueprint.lanes;
        let term = exp::<A, V>(Vector::cast_from(held[i]) - largest);
        sum += inside_or(term, A::new(0.0), column, length, ends);
    }
    sum
}

#[cube]
fn write<F: Float, A: Float, V: Size>(
    held: &mut Array<Vector<F, V>>,
    y: &mut [Vector<F, V>],
    to: &Row,
    start: usize,
    length: &Length,
    own: bool,
    largest: Vector<A, V>,
    scale: Vector<A, V>,
    #[comptime] form: Form,
    #[comptime] blueprint: Blueprint,
) {
    #[unroll]
    for i in 0..blueprint.held {
        let ends = comptime!(blueprint.ends_of(i));
        let column = start + i * blueprint.lanes;
        let value = output::<A, V>(Vector::cast_from(held[i]), largest, scale, form);
        store(y, to, column, length, own, Vector::cast_from(value), ends);
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn backward_kernel<F: Float, A: Float, V: Size>(
    dy: &[Vector<F, V>],
    y: &[Vector<F, V>],
    dx: &mut [Vector<F, V>],
    dy_rows: Rows,
    y_rows: Rows,
    dx_rows: EvenRows,
    rows: usize,
    length: Length,
    #[comptime] form: Form,
    #[comptime] blueprint: Blueprint,
    #[define(F)] _x_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let lane = lane(blueprint);
    let chunk = comptime!(blueprint.held * blueprint.lanes);
    let mut team = Team::<A>::new(!form.narrow, blueprint);
    let row = team_position(blueprint);
    // Every unit takes part where others wait for it.
    let own = row < rows;
    let row = usize::min(row, rows - 1);
    let from_dy = dy_rows.row(row);
    let from_y = y_rows.row(row);
    let to = dx_rows.row(row);
    let mut dys = Array::<Vector<F, V>>::new(blueprint.held);
    let mut ys = Array::<Vector<F, V>>::new(blueprint.held);
    let mut kept_dy = Kept::<F, V>::new(blueprint);
    let mut kept_y = Kept::<F, V>::new(blueprint);
    let mut sum = RunningSum::<A, V>::new();
    let mut start = lane;
    if comptime!(blueprint.chunked) {
        while start < length.vectors + lane {
            kept_dy.load(dy, &from_dy, start, &length, &mut dys);
            kept_y.load(y, &from_y, start, &length, &mut ys);
            sum.add(gradient_terms::<F, A, V>(&mut dys, &mut ys, form.log, blueprint));
            start += chunk;
        }
    } else {
        load(dy, &from_dy, start, &length, &mut dys, blueprint);
        load(y, &from_y, start, &length, &mut ys, blueprint);
        sum.add(gradient_terms::<F, A, V>(&mut dys, &mut ys, form.log, blueprint));
    }
    let sum = team.sum(elements_sum::<A, V>(sum.total()));
    let sum = Vector::<A, V>::new(sum);
    let mut start = lane;
    if comptime!(blueprint.chunked) {
        while start < length.vectors + lane {
            kept_dy.load_again(dy, &from_dy, start, &length, &mut dys);
            kept_y.load_again(y, &from_y, start, &length, &mut ys);
            write_gradient::<F, A, V>(
                &mut dys, &mut ys, dx, &to, start, &length, own, sum, form.log, blueprint,
            );
            start += chunk;
        }
    } else {
        write_gradient::<F, A, V>(
            &mut dys, &mut ys, dx, &to, start, &length, own, sum, form.log, blueprint,
        );
    }
}

/// Past the row's end `dy` is zero, and so are the terms.
#[cube]
fn gradient_terms<F: Float, A: Float, V: Size>(
    dys: &mut Array<Vector<F, V>>,
    ys: &mut Array<Vector<F, V>>,
    #[comptime] log: bool,
    #[comptime] blueprint: Blueprint,
) -> Vector<A, V> {
    let mut sum = Vector::<A, V>::zero();
    #[unroll]
    for i in 0..blueprint.held {
        let (dy, y) = (Vector::cast_from(dys[i]), Vector::cast_from(ys[i]));
        sum += gradient_term::<A, V>(dy, y, log);
    }
    sum
}

#[cube]
fn write_gradient<F: Float, A: Float, V: Size>(
    dys: &mut Array<Vector<F, V>>,
    ys: &mut Array<Vector<F, V>>,
    dx: &mut [Vector<F, V>],
    to: &Row,
    start: usize,
    length: &Length,
    own: bool,
    sum: Vector<A, V>,
    #[comptime] log: bool,
    #[comptime] blueprint: Blueprint,
) {
    #[unroll]
    for i in 0..blueprint.held {
        let ends = comptime!(blueprint.ends_of(i));
        let column = start + i * blueprint.lanes;
        let (dy, y) = (Vector::cast_from(dys[i]), Vector::cast_from(ys[i]));
        let value = gradient::<A, V>(dy, y, sum, log);
        store(dx, to, column, length, own, Vector::cast_from(value), ends);
    }
}
