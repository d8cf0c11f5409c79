use super::{Formula, Wanted, input_gradient, means, saved_statistics};
use crate::kernels::{
    plan::Blueprint,
    row::{Rows, bounded, is_inside, load, store},
    team::{RunningSum, Team},
};
use cubecl::prelude::*;

/// A group of rows, each read twice in chunks; the group's sums lie in memory, where a unit meets
/// its own columns only.
#[cube]
pub(super) fn backward_chunked<F: Float, G: Float, A: Float, V: Size>(
    dy: &[Vector<F, V>],
    x: &[Vector<F, V>],
    gamma: ComptimeOption<&[Vector<G, V>]>,
    saved: &[A],
    mut dx: ComptimeOption<Box<[Vector<F, V>]>>,
    mut partials: ComptimeOption<Box<[Vector<A, V>]>>,
    dy_rows: &Rows,
    x_rows: &Rows,
    rows: usize,
    vectors: usize,
    group: usize,
    groups: usize,
    #[comptime] formula: Formula,
    #[comptime] wanted: Wanted,
    #[comptime] blueprint: Blueprint,
) {
    let lane = UNIT_POS_X as usize;
    let held = blueprint.held;
    let chunk = comptime!(held * blueprint.lanes);
    let of_gamma = group * vectors;
    let of_beta = if comptime!(wanted.gamma) { groups * vectors + of_gamma } else { of_gamma };
    let mut team = Team::<A>::new(!formula.narrow, blueprint);
    let mut xs = Array::<Vector<F, V>>::new(held);
    let mut dys = Array::<Vector<F, V>>::new(held);
    let mut gammas = Array::<Vector<G, V>>::new(held);
    let scaled = comptime!(gamma.is_some());
    let mut row = group;
    while row < rows {
        let from_x = x_rows.offset(row);
        let from_dy = dy_rows.offset(row);
        let statistics = saved_statistics::<A>(saved, row, rows, formula);
        let mut level = RunningSum::<A, V>::new();
        let mut slope = RunningSum::<A, V>::new();
        let mut start = lane;
        while start < vectors + lane {
            load(x, from_x, start, vectors, &mut xs, blueprint);
            load(dy, from_dy, start, vectors, &mut dys, blueprint);
            #[comptime]
            match gamma {
                ComptimeOption::Some(gamma) => {
                    load(gamma, 0usize, start, vectors, &mut gammas, blueprint)
                }
                ComptimeOption::None => {}
            }
            let mut part_level = Vector::<A, V>::zero();
            let mut part_slope = Vector::<A, V>::zero();
            #[unroll]
            for i in 0..held {
                let dy = Vector::<A, V>::cast_from(dys[i]);
                let mut product = dy * statistics.normalized::<F, V>(xs[i], formula);
                if comptime!(formula.centered) {
                    // Past the row's end x̂ is that of zero, which may be infinite.
                    let inside = is_inside(start + i * blueprint.lanes, vectors, blueprint);
                    product = select(inside, product, Vector::zero());
                }
                #[comptime]
                match partials.as_mut() {
                    ComptimeOption::Some(partials) => {
                        let column = start + i * blueprint.lanes;
                        if column < vectors {
                            let first = row == group;
                            if comptime!(wanted.gamma) {
                                add_to(partials, of_gamma + column, product, first);
                            }
                            if comptime!(wanted.beta) {
                                add_to(partials, of_beta + column, dy, first);
                            }
                        }
                    }
                    ComptimeOption::None => {}
                }
                if comptime!(scaled) {
                    let gamma = Vector::<A, V>::cast_from(gammas[i]);
                    part_level += dy * gamma;
                    part_slope += product * gamma;
                } else {
                    part_level += dy;
                    part_slope += product;
                }
            }
            if comptime!(formula.centered) {
                level.add(part_level);
            }
            slope.add(part_slope);
            start += chunk;
        }
        #[comptime]
        match dx.as_mut() {
            ComptimeOption::Some(dx) => {
                let (level, slope) = (level.total(), slope.total());
                let means = means::<A, V>(level, slope, vectors, &mut team, formula);
                let mut start = lane;
                while start < vectors + lane {
                    load(x, from_x, start, vectors, &mut xs, blueprint);
                    load(dy, from_dy, start, vectors, &mut dys, blueprint);
                    #[unroll]
                    for i in 0..held {
                        let column = start + i * blueprint.lanes;
                        let mut dy = Vector::<A, V>::cast_from(dys[i]);
                        #[comptime]
                        match gamma {
                            ComptimeOption::Some(gamma) => {
                                dy *= Vector::<A, V>::cast_from(
                                    gamma[bounded(column, vectors, blueprint)],
                                );
                            }
                            ComptimeOption::None => {}
                        }
                        let normalized = statistics.normalized::<F, V>(xs[i], formula);
                        let r = statistics.inverse_root;
                        let value = input_gradient::<F, A, V>(normalized, dy, r, &means, formula);
                        store(dx, row * vectors, column, vectors, value, blueprint);
                    }
                    start += chunk;
                }
            }
            ComptimeOption::None => {}
        }
        row += groups;
    }
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
