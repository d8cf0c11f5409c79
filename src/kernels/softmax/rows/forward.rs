use super::super::{
    exponentials::{Form, RowExponentials, exponential, output, scale, share},
    totals::{add, finished, inside_or_padded, largest, pad, sum},
};
use crate::kernels::{
    ahead::Coming,
    plan::Blueprint,
    row::{EvenRows, Length, Row, Rows, chunks, fill_past_end, load_any, store},
    source::{Kept, Source},
    stored::widened,
    sums::{elements_max, elements_sum},
    team::{Team, lane, team_in_cube, team_position},
};
use cubecl::{ir::ElemType, prelude::*};

#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn softmax_kernel<F: Numeric, A: Float, V: Size>(
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
    let mut team = Team::<A>::new(!form.narrow, blueprint);
    if comptime!(blueprint.chunked && blueprint.ahead > 0) {
        streamed::<F, A, V>(x, y, &x_rows, &y_rows, rows, &length, &mut team, form, blueprint);
    } else if comptime!(blueprint.chunked) {
        let row = team_position(blueprint);
        chunked::<F, A, V>(x, y, &x_rows, &y_rows, row, rows, &length, &mut team, form, blueprint);
    } else {
        let row = team_position(blueprint);
        let mut held = Array::<Vector<F, V>>::new(blueprint.held);
        if comptime!(blueprint.ahead > 0) {
            let stride = CUBE_COUNT * blueprint.teams;
            let mut coming = Coming::<F, V>::new(x, &x_rows, row, stride, rows, &length, blueprint);
            // The same for all teams of a cube, as barriers ask for.
            let mut first = CUBE_POS * blueprint.teams;
            while first < rows {
                let row = first + team_in_cube(blueprint);
                coming.take(x, &x_rows, row, &length, &mut held);
                let to = y_rows.row(usize::min(row, rows - 1));
                held_row::<F, A, V>(
                    &mut held,
                    y,
                    &to,
                    row < rows,
                    &length,
                    &mut team,
                    form,
                    blueprint,
                );
                first += stride;
            }
        } else {
            // Every unit takes part where others wait for it.
            let own = row < rows;
            let row = usize::min(row, rows - 1);
            let lane = lane(blueprint);
            load_any(x, &x_rows.row(row), lane, &length, &mut held, 0usize, blueprint);
            let to = y_rows.row(row);
            held_row::<F, A, V>(&mut held, y, &to, own, &length, &mut team, form, blueprint);
        }
    }
}

/// A row in registers.
#[cube]
fn held_row<F: Numeric, A: Float, V: Size>(
    held: &mut Array<Vector<F, V>>,
    y: &mut [Vector<F, V>],
    to: &Row,
    own: bool,
    length: &Length,
    team: &mut Team<A>,
    #[comptime] form: Form,
    #[comptime] blueprint: Blueprint,
) {
    let lane = lane(blueprint);
    pad(held, lane, length, blueprint);
    let largest = largest::<F, A, V>(held, lane, length, blueprint);
    let largest = Vector::<A, V>::new(team.max(elements_max::<A, V>(largest)));
    if comptime!(form.log) {
        let total = sum::<F, A, V>(held, largest, lane, length, blueprint);
        let total = team.sum(elements_sum::<A, V>(total));
        let scale = scale::<A, V>(Vector::new(total), form);
        write::<F, A, V>(held, y, to, lane, length, own, largest, scale, form, blueprint);
    } else {
        // Each is computed once.
        let mut exponentials = Array::<Vector<A, V>>::new(blueprint.held);
        let mut total = Vector::<A, V>::zero();
        #[unroll]
        for i in 0..blueprint.held {
            let ends = comptime!(blueprint.ends_of(i));
            let column = lane + i * blueprint.lanes;
            let value = widened::<F, A, V>(held[i]);
            let value = exponential::<A, V>(value, largest, form);
            exponentials[i] = value;
            total += inside_or_padded(value, A::new(0.0), column, length, ends);
        }
        let total = team.sum(elements_sum::<A, V>(total));
        let scale = scale::<A, V>(Vector::new(total), form);
        #[unroll]
        for i in 0..blueprint.held {
            let ends = comptime!(blueprint.ends_of(i));
            let column = lane + i * blueprint.lanes;
            let value = share::<A, V>(exponentials[i], scale, form);
            store(y, to, column, length, own, value, ends);
        }
    }
}

/// A row that is read twice.
#[cube]
fn chunked<F: Numeric, A: Float, V: Size>(
    x: &[Vector<F, V>],
    y: &mut [Vector<F, V>],
    x_rows: &Rows,
    y_rows: &EvenRows,
    row: usize,
    rows: usize,
    length: &Length,
    team: &mut Team<A>,
    #[comptime] form: Form,
    #[comptime] blueprint: Blueprint,
) {
    let lane = lane(blueprint);
    let chunk = comptime!(blueprint.held * blueprint.lanes);
    // Every unit takes part where others wait for it.
    let own = row < rows;
    let row = usize::min(row, rows - 1);
    let from = Source::<F, V>::of(x, x_rows.row(row));
    let to = y_rows.row(row);
    let mut kept = Kept::<F, V>::new(blueprint);
    let mut held = Array::<Vector<F, V>>::new(blueprint.held);
    let mut exponentials = RowExponentials::<A>::new();
    let mut start = lane;
    while start < length.vectors + lane {
        kept.load(&from, start, length, &mut held);
        add::<F, A, V>(&mut exponentials, &mut held, start, length, blueprint);
        start += chunk;
    }
    let (largest, scale) = finished::<A, V>(&exponentials, team, form);
    // The last chunk first, which is still held.
    let chunks = chunks(length, blueprint);
    let mut left = chunks;
    while left > 0 {
        let start = lane + (left - 1) * chunk;
        if left < chunks {
            kept.load_again(&from, start, length, &mut held);
        }
        write::<F, A, V>(&mut held, y, &to, start, length, own, largest, scale, form, blueprint);
        left -= 1;
    }
}

/// Rows too wide to be held, every so many of a cube's: while one is written, the next one is read. A row
/// stays in shared memory as far as there is room.
#[cube]
fn streamed<F: Numeric, A: Float, V: Size>(
    x: &[Vector<F, V>],
    y: &mut [Vector<F, V>],
    x_rows: &Rows,
    y_rows: &EvenRows,
    rows: usize,
    length: &Length,
    team: &mut Team<A>,
    #[comptime] form: Form,
    #[comptime] blueprint: Blueprint,
) {
    let lane = lane(blueprint);
    let chunk = comptime!(blueprint.held * blueprint.lanes);
    let mut kept = Kept::<F, V>::new(blueprint);
    let mut held = Array::<Vector<F, V>>::new(blueprint.held);
    let mut coming = Array::<Vector<F, V>>::new(blueprint.held);
    let mut exponentials = RowExponentials::<A>::new();
    let mut row = CUBE_POS;
    if row < rows {
        let from = Source::<F, V>::of(x, x_rows.row(row));
        let mut start = lane;
        while start < length.vectors + lane {
            kept.load(&from, start, length, &mut held);
            add::<F, A, V>(&mut exponentials, &mut held, start, length, blueprint);
            start += chunk;
        }
    }
    while row < rows {
        let next = row + CUBE_COUNT;
        let more = next < rows;
        let from = Source::<F, V>::of(x, x_rows.row(row));
        let from_next = x_rows.row(usize::min(next, rows - 1));
        let to = y_rows.row(row);
        // Before this row's barriers.
        if more {
            load_any(x, &from_next, lane, length, &mut coming, 0usize, blueprint);
        }
        let (largest, scale) = finished::<A, V>(&exponentials, team, form);
        exponentials.clear();
        let mut start = lane;
        while start < length.vectors + lane {
            kept.load_again(&from, start, length, &mut held);
            let own = true.runtime();
            write::<F, A, V>(
                &mut held, y, &to, start, length, own, largest, scale, form, blueprint,
            );
            if more {
                fill_past_end(&mut coming, F::from_int(0), start, length, blueprint);
                kept.keep(start, &mut coming);
                add::<F, A, V>(&mut exponentials, &mut coming, start, length, blueprint);
            }
            start += chunk;
            if more && start < length.vectors + lane {
                load_any(x, &from_next, start, length, &mut coming, 0usize, blueprint);
            }
        }
        row = next;
    }
}

#[cube]
fn write<F: Numeric, A: Float, V: Size>(
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
        let value = output::<A, V>(widened::<F, A, V>(held[i]), largest, scale, form);
        store(y, to, column, length, own, value, ends);
    }
}
