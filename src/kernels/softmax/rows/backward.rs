use super::super::exponentials::{Form, gradient, gradient_term};
use crate::kernels::{
    plan::Blueprint,
    row::{EvenRows, Length, Row, Rows, chunks, inside_or, store},
    source::{Kept, Source},
    stored::widened,
    sums::{RunningSum, elements_sum},
    team::{Team, lane, team_position},
};
use cubecl::{ir::ElemType, prelude::*};

#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn softmax_backward_kernel<F: Numeric, A: Float, V: Size>(
    dy: &[Vector<F, V>],
    y: &[Vector<F, V>],
    dx: &mut [Vector<F, V>],
    dy_rows: Rows,
    y_rows: Rows,
    dx_rows: EvenRows,
    rows: usize,
    length: Length,
    scale: ComptimeOption<InputScalar>,
    #[comptime] form: Form,
    #[comptime] blueprint: Blueprint,
    #[define(F)] _x_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let mut team = Team::<A>::new(!form.narrow, blueprint);
    let lane = lane(blueprint);
    let chunk = comptime!(blueprint.held * blueprint.lanes);
    let row = team_position(blueprint);
    // Every unit takes part where others wait for it.
    let own = row < rows;
    let row = usize::min(row, rows - 1);
    let from_dy = Source::<F, V>::of(dy, dy_rows.row(row));
    let from_y = Source::<F, V>::of(y, y_rows.row(row));
    let to = dx_rows.row(row);
    let mut dys = Array::<Vector<F, V>>::new(blueprint.held);
    let mut ys = Array::<Vector<F, V>>::new(blueprint.held);
    let mut kept_dy = Kept::<F, V>::new(blueprint);
    let mut kept_y = Kept::<F, V>::new(blueprint);
    let mut sum = RunningSum::<A, V>::new();
    if comptime!(blueprint.chunked) {
        let mut start = lane;
        while start < length.vectors + lane {
            kept_dy.load(&from_dy, start, &length, &mut dys);
            kept_y.load(&from_y, start, &length, &mut ys);
            let terms = gradient_terms::<F, A, V>(&dys, &ys, start, &length, form.log, blueprint);
            sum.add(terms);
            start += chunk;
        }
    } else {
        from_dy.load_any(lane, &length, &mut dys, blueprint);
        from_y.load_any(lane, &length, &mut ys, blueprint);
        sum.add(gradient_terms::<F, A, V>(&dys, &ys, lane, &length, form.log, blueprint));
    }
    let sum = Vector::<A, V>::new(team.sum(elements_sum::<A, V>(sum.total())));
    if comptime!(blueprint.chunked) {
        // The last chunk first, which is still held.
        let chunks = chunks(&length, blueprint);
        let mut left = chunks;
        while left > 0 {
            let start = lane + (left - 1) * chunk;
            if left < chunks {
                kept_dy.load_again(&from_dy, start, &length, &mut dys);
                kept_y.load_again(&from_y, start, &length, &mut ys);
            }
            write_gradient::<F, A, V>(
                &dys, &ys, dx, &to, start, &length, own, sum, &scale, form.log, blueprint,
            );
            left -= 1;
        }
    } else {
        write_gradient::<F, A, V>(
            &dys, &ys, dx, &to, lane, &length, own, sum, &scale, form.log, blueprint,
        );
    }
}

/// The sum of the terms of what is held: of chunks, which are zero past the row's end, or of anything there.
#[cube]
fn gradient_terms<F: Numeric, A: Float, V: Size>(
    dys: &Array<Vector<F, V>>,
    ys: &Array<Vector<F, V>>,
    start: usize,
    length: &Length,
    #[comptime] log: bool,
    #[comptime] blueprint: Blueprint,
) -> Vector<A, V> {
    let mut sum = Vector::<A, V>::zero();
    #[unroll]
    for i in 0..blueprint.held {
        let ends = comptime!(blueprint.ends_of(i));
        let column = start + i * blueprint.lanes;
        let (dy, y) = (widened::<F, A, V>(dys[i]), widened::<F, A, V>(ys[i]));
        let term = gradient_term::<A, V>(dy, y, log);
        sum += if comptime!(blueprint.chunked) {
            term
        } else {
            inside_or(term, A::new(0.0), column, length, ends)
        };
    }
    sum
}

#[cube]
fn write_gradient<F: Numeric, A: Float, V: Size>(
    dys: &Array<Vector<F, V>>,
    ys: &Array<Vector<F, V>>,
    dx: &mut [Vector<F, V>],
    to: &Row,
    start: usize,
    length: &Length,
    own: bool,
    sum: Vector<A, V>,
    scale: &ComptimeOption<InputScalar>,
    #[comptime] log: bool,
    #[comptime] blueprint: Blueprint,
) {
    #[unroll]
    for i in 0..blueprint.held {
        let ends = comptime!(blueprint.ends_of(i));
        let column = start + i * blueprint.lanes;
        let (dy, y) = (widened::<F, A, V>(dys[i]), widened::<F, A, V>(ys[i]));
        let mut value = gradient::<A, V>(dy, y, sum, log);
        #[comptime]
        match scale {
            ComptimeOption::Some(scale) => value *= Vector::new(scale.get::<A>()),
            ComptimeOption::None => {}
        }
        store(dx, to, column, length, own, value, ends);
    }
}
