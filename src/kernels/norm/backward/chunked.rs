use super::{Formula, Means, Wanted, input_gradient, means, saved_statistics};
use crate::kernels::{
    norm::{factor, head::Head, statistics::Statistics},
    plan::Blueprint,
    row::{EvenRows, Length, Row, Rows, inside_or, load, read, read_any, store},
    stored::widened,
    sums::{Count, RunningSum},
    team::{Team, lane},
};
use cubecl::prelude::*;

/// A group of rows, each read twice in chunks; the group's sums lie in memory, where a unit meets
/// its own columns only.
#[cube]
pub(super) fn backward_chunked<F: Numeric, Y: Numeric, G: Numeric, A: Float, V: Size>(
    dy: &[Vector<Y, V>],
    x: &[Vector<F, V>],
    elsewhere: ComptimeOption<&[Vector<F, V>]>,
    gamma: ComptimeOption<&[Vector<G, V>]>,
    saved: &[A],
    mut dx: ComptimeOption<Box<[Vector<F, V>]>>,
    mut partials: ComptimeOption<Box<[Vector<A, V>]>>,
    dy_rows: &Rows,
    x_rows: &Rows,
    elsewhere_rows: &ComptimeOption<Rows>,
    dx_rows: &EvenRows,
    head: &Head,
    rows: usize,
    length: &Length,
    group: usize,
    groups: usize,
    #[comptime] formula: Formula,
    #[comptime] wanted: Wanted,
    #[comptime] blueprint: Blueprint,
) {
    let lane = lane(blueprint);
    let held = blueprint.held;
    let (of_gamma, end) = head.partials(group, groups, length);
    let of_beta = if comptime!(wanted.gamma) { end + of_gamma } else { of_gamma };
    let parameters = head.parameters(length);
    let mut team = Team::<A>::new(!formula.narrow, blueprint);
    let mut xs = Array::<Vector<F, V>>::new(held);
    let mut dys = Array::<Vector<Y, V>>::new(held);
    let mut own = group;
    while own < rows {
        let row = head.row(own);
        let from_x = x_rows.row(row);
        let from_dy = dy_rows.row(row);
        let to = dx_rows.row(row);
        let statistics = saved_statistics::<A>(saved, row, head.all(rows), formula);
        let row_means = if comptime!(dx.is_some()) {
            row_means::<F, Y, G, A, V>(
                dy,
                x,
                gamma,
                &parameters,
                &from_dy,
                &from_x,
                length,
                &statistics,
                &mut team,
                formula,
                blueprint,
            )
        } else {
            Means::<A> { level: A::new(0.0), slope: A::new(0.0) }
        };
        let mut start = lane;
        while start < length.vectors + lane {
            load(x, &from_x, start, length, &mut xs, blueprint);
            load(dy, &from_dy, start, length, &mut dys, blueprint);
            #[unroll]
            for i in 0..held {
                let column = start + i * blueprint.lanes;
                let dy = widened::<Y, A, V>(dys[i]);
                let normalized = statistics.normalized::<F, V>(xs[i], formula);
                #[comptime]
                match partials.as_mut() {
                    ComptimeOption::Some(partials) => {
                        if column < length.vectors {
                            let first = own == group;
                            if comptime!(wanted.gamma) {
                                add_to(partials, of_gamma + column, dy * normalized, first);
                            }
                            if comptime!(wanted.beta) {
                                add_to(partials, of_beta + column, dy, first);
                            }
                        }
                    }
                    ComptimeOption::None => {}
                }
                #[comptime]
                match dx.as_mut() {
                    ComptimeOption::Some(dx) => {
                        let scaled = scaled::<G, A, V>(
                            dy,
                            gamma,
                            &parameters,
                            column,
                            length,
                            formula,
                            blueprint,
                        );
                        let r = statistics.inverse_root;
                        let mut value =
                            input_gradient::<A, V>(normalized, scaled, r, &row_means, formula);
                        #[comptime]
                        match elsewhere {
                            ComptimeOption::Some(elsewhere) => {
                                let from = elsewhere_rows.as_ref().unwrap().row(row);
                                let ends = blueprint.ends;
                                let part = read_any(elsewhere, &from, column, length, ends);
                                value += widened::<F, A, V>(part);
                            }
                            ComptimeOption::None => {}
                        }
                        let own = true.runtime();
                        store(dx, &to, column, length, own, value, blueprint.ends);
                    }
                    ComptimeOption::None => {}
                }
            }
            start += comptime!(held * blueprint.lanes);
        }
        own += groups;
    }
}

/// The means of a row that is read in chunks.
#[cube]
pub(super) fn row_means<F: Numeric, Y: Numeric, G: Numeric, A: Float, V: Size>(
    dy: &[Vector<Y, V>],
    x: &[Vector<F, V>],
    gamma: ComptimeOption<&[Vector<G, V>]>,
    parameters: &Row,
    from_dy: &Row,
    from_x: &Row,
    length: &Length,
    statistics: &Statistics<A>,
    team: &mut Team<A>,
    #[comptime] formula: Formula,
    #[comptime] blueprint: Blueprint,
) -> Means<A> {
    let lane = lane(blueprint);
    let held = blueprint.held;
    let mut xs = Array::<Vector<F, V>>::new(held);
    let mut dys = Array::<Vector<Y, V>>::new(held);
    let mut level = RunningSum::<A, V>::new();
    let mut slope = RunningSum::<A, V>::new();
    let mut start = lane;
    while start < length.vectors + lane {
        load(x, from_x, start, length, &mut xs, blueprint);
        load(dy, from_dy, start, length, &mut dys, blueprint);
        let mut part_level = Vector::<A, V>::zero();
        let mut part_slope = Vector::<A, V>::zero();
        #[unroll]
        for i in 0..held {
            let column = start + i * blueprint.lanes;
            let dy = widened::<Y, A, V>(dys[i]);
            let dy = scaled::<G, A, V>(dy, gamma, parameters, column, length, formula, blueprint);
            let mut product = dy * statistics.normalized::<F, V>(xs[i], formula);
            if comptime!(formula.centered) {
                // Past the row's end x̂ is that of zero, which may be infinite.
                product = inside_or(product, A::new(0.0), column, length, blueprint.ends);
                part_level += dy;
            }
            part_slope += product;
        }
        if comptime!(formula.centered) {
            level.add(part_level);
        }
        slope.add(part_slope);
        start += comptime!(held * blueprint.lanes);
    }
    let columns = Count::<A>::of(length.columns);
    means::<A, V>(level.total(), slope.total(), &columns, team, formula)
}

/// `γ·dy`, zero past the row's end.
#[cube]
fn scaled<G: Numeric, A: Float, V: Size>(
    dy: Vector<A, V>,
    gamma: ComptimeOption<&[Vector<G, V>]>,
    parameters: &Row,
    column: usize,
    length: &Length,
    #[comptime] formula: Formula,
    #[comptime] blueprint: Blueprint,
) -> Vector<A, V> {
    let mut scaled = dy;
    #[comptime]
    match gamma {
        ComptimeOption::Some(gamma) => {
            let gamma = read(gamma, parameters, column, length, blueprint.ends);
            scaled *= factor::<G, A, V>(gamma, formula);
        }
        ComptimeOption::None => {}
    }
    scaled
}

/// Adds `term` to the partial at `at`, which the group's first row starts.
#[cube]
fn add_to<A: Float, V: Size>(
    partials: &mut [Vector<A, V>],
    at: usize,
    term: Vector<A, V>,
    first: bool,
) {
    if first {
        partials[at] = term;
    } else {
        partials[at] += term;
    }
}
