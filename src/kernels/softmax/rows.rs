//! Along the last dimension.

use super::{
    Backward, Extent, Forward,
    exponentials::{Exponentials, Form, exp, gradient, gradient_term, output, scale},
};
use crate::kernels::{
    plan::{Blueprint, Hardware, Pass, address, cubes},
    row::{Rows, is_inside, load, store},
    team::{RunningSum, Team, elements_max, elements_sum, team_position},
};
use cubecl::{CubeCount, CubeDim, client::Client, ir::ElemType, prelude::*};

struct Launch {
    vectors: usize,
    blueprint: Blueprint,
    count: CubeCount,
    dim: CubeDim,
}

fn launch(pass: Pass, extent: Extent, size: usize, client: &Client) -> Launch {
    let Extent { outer, length, width, .. } = extent;
    let hardware = Hardware::of(client);
    let vectors = length / width;
    let blueprint = Blueprint::for_lengths(pass, vectors, width, size, hardware);
    Launch {
        vectors,
        blueprint,
        count: cubes(outer.div_ceil(blueprint.teams), 1, client),
        dim: CubeDim::new_2d(blueprint.lanes as u32, blueprint.teams as u32),
    }
}

pub(super) fn forward(call: Forward, client: &Client) {
    let Forward { extent, types, log, x, y } = call;
    let Launch { vectors, blueprint, count, dim } =
        launch(Pass::Forward, extent, types.x.size(), client);
    let address_type = address(extent.len().max(x.matrix.len));
    let (x, x_rows) = x.matrix.args(extent.width);
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
            y.arg(extent.len()),
            x_rows,
            extent.outer,
            vectors,
            Form::new(log, types),
            blueprint,
            types.x,
            types.accumulator,
        );
    }
}

pub(super) fn backward(call: Backward, client: &Client) {
    let Backward { extent, types, log, dy, y, dx } = call;
    let Launch { vectors, blueprint, count, dim } =
        launch(Pass::Backward, extent, types.x.size(), client);
    let address_type = address(extent.len().max(dy.matrix.len).max(y.matrix.len));
    let (dy, dy_rows) = dy.matrix.args(extent.width);
    let (y, y_rows) = y.matrix.args(extent.width);
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
            dx.arg(extent.len()),
            dy_rows,
            y_rows,
            extent.outer,
            vectors,
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
    rows: usize,
    vectors: usize,
    #[comptime] form: Form,
    #[comptime] blueprint: Blueprint,
    #[define(F)] _x_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let lane = UNIT_POS_X as usize;
    let chunk = comptime!(blueprint.held * blueprint.lanes);
    let mut team = Team::<A>::new(!form.narrow, blueprint);
    let row = team_position(blueprint.teams);
    if row < rows {
        let from = x_rows.offset(row);
        let to = row * vectors;
        let mut held = Array::<Vector<F, V>>::new(blueprint.held);
        let mut exponentials = Exponentials::<A, V>::new();
        if comptime!(blueprint.chunked) {
            let mut start = lane;
            while start < vectors + lane {
                load(x, from, start, vectors, &mut held, blueprint);
                let largest = largest::<F, A, V>(&mut held, start, vectors, blueprint);
                let base = exponentials.raise(largest);
                exponentials.add(sum::<F, A, V>(&mut held, base, start, vectors, blueprint));
                start += chunk;
            }
            let largest = team.max(elements_max::<A, V>(exponentials.largest));
            let largest = Vector::<A, V>::new(largest);
            let total = team.sum(elements_sum::<A, V>(exponentials.total(largest)));
            let scale = scale::<A, V>(Vector::new(total), form);
            let mut start = lane;
            while start < vectors + lane {
                load(x, from, start, vectors, &mut held, blueprint);
                write::<F, A, V>(&mut held, y, to, start, vectors, largest, scale, form, blueprint);
                start += chunk;
            }
        } else {
            load(x, from, lane, vectors, &mut held, blueprint);
            let largest = largest::<F, A, V>(&mut held, lane, vectors, blueprint);
            let largest = Vector::<A, V>::new(team.max(elements_max::<A, V>(largest)));
            let total = sum::<F, A, V>(&mut held, largest, lane, vectors, blueprint);
            let total = team.sum(elements_sum::<A, V>(total));
            let scale = scale::<A, V>(Vector::new(total), form);
            write::<F, A, V>(&mut held, y, to, lane, vectors, largest, scale, form, blueprint);
        }
    }
}

/// The largest of the held values, or the least finite number if all are −∞.
#[cube]
fn largest<F: Float, A: Float, V: Size>(
    held: &mut Array<Vector<F, V>>,
    start: usize,
    vectors: usize,
    #[comptime] blueprint: Blueprint,
) -> Vector<A, V> {
    let least = Vector::<A, V>::new(A::min_value());
    let mut largest = least;
    #[unroll]
    for i in 0..blueprint.held {
        let inside = is_inside(start + i * blueprint.lanes, vectors, blueprint);
        largest = max(largest, select(inside, Vector::cast_from(held[i]), least));
    }
    largest
}

#[cube]
fn sum<F: Float, A: Float, V: Size>(
    held: &mut Array<Vector<F, V>>,
    largest: Vector<A, V>,
    start: usize,
    vectors: usize,
    #[comptime] blueprint: Blueprint,
) -> Vector<A, V> {
    let mut sum = Vector::<A, V>::zero();
    #[unroll]
    for i in 0..blueprint.held {
        let inside = is_inside(start + i * blueprint.lanes, vectors, blueprint);
        let term = exp::<A, V>(Vector::cast_from(held[i]) - largest);
        sum += select(inside, term, Vector::zero());
    }
    sum
}

#[cube]
fn write<F: Float, A: Float, V: Size>(
    held: &mut Array<Vector<F, V>>,
    y: &mut [Vector<F, V>],
    to: usize,
    start: usize,
    vectors: usize,
    largest: Vector<A, V>,
    scale: Vector<A, V>,
    #[comptime] form: Form,
    #[comptime] blueprint: Blueprint,
) {
    #[unroll]
    for i in 0..blueprint.held {
        let column = start + i * blueprint.lanes;
        let value = output::<A, V>(Vector::cast_from(held[i]), largest, scale, form);
        store(y, to, column, vectors, Vector::cast_from(value), blueprint);
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn backward_kernel<F: Float, A: Float, V: Size>(
    dy: &[Vector<F, V>],
    y: &[Vector<F, V>],
    dx: &mut [Vector<F, V>],
    dy_rows: Rows,
    y_rows: Rows,
    rows: usize,
    vectors: usize,
    #[comptime] form: Form,
    #[comptime] blueprint: Blueprint,
    #[define(F)] _x_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let lane = UNIT_POS_X as usize;
    let chunk = comptime!(blueprint.held * blueprint.lanes);
    let mut team = Team::<A>::new(!form.narrow, blueprint);
    let row = team_position(blueprint.teams);
    if row < rows {
        let from_dy = dy_rows.offset(row);
        let from_y = y_rows.offset(row);
        let to = row * vectors;
        let mut dys = Array::<Vector<F, V>>::new(blueprint.held);
        let mut ys = Array::<Vector<F, V>>::new(blueprint.held);
        let mut sum = RunningSum::<A, V>::new();
        if comptime!(blueprint.chunked) {
            let mut start = lane;
            while start < vectors + lane {
                load(dy, from_dy, start, vectors, &mut dys, blueprint);
                load(y, from_y, start, vectors, &mut ys, blueprint);
                sum.add(gradient_terms::<F, A, V>(&mut dys, &mut ys, form.log, blueprint));
                start += chunk;
            }
        } else {
            load(dy, from_dy, lane, vectors, &mut dys, blueprint);
            load(y, from_y, lane, vectors, &mut ys, blueprint);
            sum.add(gradient_terms::<F, A, V>(&mut dys, &mut ys, form.log, blueprint));
        }
        let sum = team.sum(elements_sum::<A, V>(sum.total()));
        let sum = Vector::<A, V>::new(sum);
        if comptime!(blueprint.chunked) {
            let mut start = lane;
            while start < vectors + lane {
                load(dy, from_dy, start, vectors, &mut dys, blueprint);
                load(y, from_y, start, vectors, &mut ys, blueprint);
                write_gradient::<F, A, V>(
                    &mut dys, &mut ys, dx, to, start, vectors, sum, form.log, blueprint,
                );
                start += chunk;
            }
        } else {
            write_gradient::<F, A, V>(
                &mut dys, &mut ys, dx, to, lane, vectors, sum, form.log, blueprint,
            );
        }
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
    to: usize,
    start: usize,
    vectors: usize,
    sum: Vector<A, V>,
    #[comptime] log: bool,
    #[comptime] blueprint: Blueprint,
) {
    #[unroll]
    for i in 0..blueprint.held {
        let column = start + i * blueprint.lanes;
        let (dy, y) = (Vector::cast_from(dys[i]), Vector::cast_from(ys[i]));
        let value = gradient::<A, V>(dy, y, sum, log);
        store(dx, to, column, vectors, Vector::cast_from(value), blueprint);
    }
}
