use super::{Formula, Wanted, input_gradient, means, saved_statistics};
use crate::kernels::{
    plan::Blueprint,
    row::{Rows, is_inside, load, store},
    team::Team,
};
use cubecl::prelude::*;

/// A group of rows, each held in registers while it is worked on; so are the group's sums.
#[cube]
pub(super) fn backward_held<F: Float, G: Float, A: Float, V: Size>(
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
    let mut team = Team::<A>::new(!formula.narrow, blueprint);
    let mut xs = Array::<Vector<F, V>>::new(held);
    let mut dys = Array::<Vector<F, V>>::new(held);
    let mut next_xs = Array::<Vector<F, V>>::new(held);
    let mut next_dys = Array::<Vector<F, V>>::new(held);
    let mut gammas = Array::<Vector<G, V>>::new(held);
    let mut gamma_sums = Array::<Vector<A, V>>::new(held);
    let mut beta_sums = Array::<Vector<A, V>>::new(held);
    #[unroll]
    for i in 0..held {
        gamma_sums[i] = Vector::zero();
        beta_sums[i] = Vector::zero();
    }
    let scaled = comptime!(gamma.is_some());
    #[comptime]
    match gamma {
        ComptimeOption::Some(gamma) => load(gamma, 0usize, lane, vectors, &mut gammas, blueprint),
        ComptimeOption::None => {}
    }
    if comptime!(blueprint.prefetch) {
        load(x, x_rows.offset(group), lane, vectors, &mut next_xs, blueprint);
        load(dy, dy_rows.offset(group), lane, vectors, &mut next_dys, blueprint);
    }
    let mut row = group;
    while row < rows {
        if comptime!(blueprint.prefetch) {
            #[unroll]
            for i in 0..held {
                xs[i] = next_xs[i];
                dys[i] = next_dys[i];
            }
            // Issued before this row's barrier, so that reading goes on while units wait. After the
            // last row that row again, as another may be written over meanwhile.
            let next = select(row + groups < rows, row + groups, row);
            load(x, x_rows.offset(next), lane, vectors, &mut next_xs, blueprint);
            load(dy, dy_rows.offset(next), lane, vectors, &mut next_dys, blueprint);
        } else {
            load(x, x_rows.offset(row), lane, vectors, &mut xs, blueprint);
            load(dy, dy_rows.offset(row), lane, vectors, &mut dys, blueprint);
        }
        let statistics = saved_statistics::<A>(saved, row, rows, formula);
        let mut level = Vector::<A, V>::zero();
        let mut slope = Vector::<A, V>::zero();
        #[unroll]
        for i in 0..held {
            // Zero past the end of the row.
            let dy = Vector::<A, V>::cast_from(dys[i]);
            let mut product = dy * statistics.normalized::<F, V>(xs[i], formula);
            if comptime!(formula.centered) {
                // Past the row's end x̂ is that of zero, which may be infinite.
                let inside = is_inside(lane + i * blueprint.lanes, vectors, blueprint);
                product = select(inside, product, Vector::zero());
            }
            gamma_sums[i] += product;
            beta_sums[i] += dy;
            if comptime!(scaled) {
                let gamma = Vector::<A, V>::cast_from(gammas[i]);
                level += dy * gamma;
                slope += product * gamma;
            } else {
                level += dy;
                slope += product;
            }
        }
        #[comptime]
        match dx.as_mut() {
            ComptimeOption::Some(dx) => {
                let means = means::<A, V>(level, slope, vectors, &mut team, formula);
                #[unroll]
                for i in 0..held {
                    let mut dy = Vector::<A, V>::cast_from(dys[i]);
                    if comptime!(scaled) {
                        dy *= Vector::<A, V>::cast_from(gammas[i]);
                    }
                    let normalized = statistics.normalized::<F, V>(xs[i], formula);
                    let r = statistics.inverse_root;
                    let value = input_gradient::<F, A, V>(normalized, dy, r, &means, formula);
                    let column = lane + i * blueprint.lanes;
                    store(dx, row * vectors, column, vectors, value, blueprint);
                }
            }
            ComptimeOption::None => {}
        }
        row += groups;
    }
    #[comptime]
    match partials.as_mut() {
        ComptimeOption::Some(partials) => {
            let of_gamma = group * vectors;
            let of_beta =
                if comptime!(wanted.gamma) { groups * vectors + of_gamma } else { of_gamma };
            #[unroll]
            for i in 0..held {
                let column = lane + i * blueprint.lanes;
                if comptime!(wanted.gamma) {
                    store(partials, of_gamma, column, vectors, gamma_sums[i], blueprint);
                }
                if comptime!(wanted.beta) {
                    store(partials, of_beta, column, vectors, beta_sums[i], blueprint);
                }
            }
        }
        ComptimeOption::None => {}
    }
}
