use super::{Formula, Wanted, input_gradient, means, saved_statistics};
use crate::kernels::{
    norm::{factor, head::Head, statistics::Statistics},
    plan::Blueprint,
    row::{EvenRows, Length, Rows, inside_or, is_inside, load, load_any, store},
    stored::widened,
    sums::Count,
    team::{Team, lane, team_in_cube},
};
use cubecl::prelude::*;

/// The rows of a group, which a cube's teams take side by side. Each is held in registers while it is
/// worked on; the sums over a team's rows are held too, or in shared memory, until those of the teams are added
/// up.
#[cube]
pub(super) fn backward_held<F: Numeric, Y: Numeric, G: Numeric, A: Float, V: Size>(
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
    let teams = blueprint.teams;
    let ahead = blueprint.ahead;
    let mut team = Team::<A>::new(!formula.narrow, blueprint);
    let mut gammas = Array::<Vector<G, V>>::new(held);
    let mut gamma_sums = Sums::<A, V>::new(wanted.gamma, blueprint);
    let mut beta_sums = Sums::<A, V>::new(wanted.beta, blueprint);
    let scaled = comptime!(gamma.is_some());
    #[comptime]
    match gamma {
        ComptimeOption::Some(gamma) => {
            load(gamma, &head.parameters(length), lane, length, &mut gammas, blueprint);
        }
        ComptimeOption::None => {}
    }
    let columns = Count::<A>::of(length.columns);
    let stride = groups * teams;
    // Every team makes as many steps, as barriers ask for: the last rows may be none of its own.
    let mut first = group * teams;
    let mut window = Window::<F, Y, A, V>::new(blueprint);
    #[unroll]
    for slot in 1..comptime!(ahead + 1) {
        let row = first + team_in_cube(blueprint) + comptime!(slot - 1) * stride;
        load_row::<F, Y, A, V>(
            &mut window,
            dy,
            x,
            saved,
            dy_rows,
            x_rows,
            head,
            row,
            rows,
            length,
            slot,
            formula,
            blueprint,
        );
    }
    while first < rows {
        let row = first + team_in_cube(blueprint);
        let own = comptime!(teams == 1).runtime() || row < rows;
        // Issued before this row's barrier, so that reading goes on while units wait.
        window.advance(blueprint);
        let next = row + ahead * stride;
        load_row::<F, Y, A, V>(
            &mut window,
            dy,
            x,
            saved,
            dy_rows,
            x_rows,
            head,
            next,
            rows,
            length,
            ahead,
            formula,
            blueprint,
        );
        let statistics = window.statistics();
        let mut arriving = Array::<Vector<F, V>>::new(held);
        #[comptime]
        match elsewhere {
            ComptimeOption::Some(elsewhere) => {
                let from = head.row(usize::min(row, rows - 1));
                let from = elsewhere_rows.as_ref().unwrap().row(from);
                load_any(elsewhere, &from, lane, length, &mut arriving, 0usize, blueprint);
            }
            ComptimeOption::None => {}
        }
        let mut level = Vector::<A, V>::zero();
        let mut slope = Vector::<A, V>::zero();
        #[unroll]
        for i in 0..held {
            let ends = comptime!(blueprint.ends_of(i));
            let column = lane + i * blueprint.lanes;
            let dy = widened::<Y, A, V>(window.dy[i]);
            let product = dy * statistics.normalized::<F, V>(window.x[i], formula);
            let dy = inside_or(dy, A::new(0.0), column, length, ends);
            let product = inside_or(product, A::new(0.0), column, length, ends);
            if comptime!(wanted.gamma) {
                gamma_sums.add(i, product);
            }
            if comptime!(wanted.beta) {
                beta_sums.add(i, dy);
            }
            if comptime!(scaled) {
                let gamma = factor::<G, A, V>(gammas[i], formula);
                level += dy * gamma;
                // By way of x̂ instead, whose registers are then taken across the barrier: LayerNorm, 8,192×4,096
                // bf16, takes 75 µs on an H200, 58 so.
                slope += product * gamma;
            } else {
                level += dy;
                slope += product;
            }
        }
        #[comptime]
        match dx.as_mut() {
            ComptimeOption::Some(dx) => {
                let means = means::<A, V>(level, slope, &columns, &mut team, formula);
                #[unroll]
                for i in 0..held {
                    let ends = comptime!(blueprint.ends_of(i));
                    let mut dy = widened::<Y, A, V>(window.dy[i]);
                    if comptime!(scaled) {
                        dy *= factor::<G, A, V>(gammas[i], formula);
                    }
                    let normalized = statistics.normalized::<F, V>(window.x[i], formula);
                    let r = statistics.inverse_root;
                    let mut value = input_gradient::<A, V>(normalized, dy, r, &means, formula);
                    if comptime!(elsewhere.is_some()) {
                        value += widened::<F, A, V>(arriving[i]);
                    }
                    let column = lane + i * blueprint.lanes;
                    store(dx, &dx_rows.row(head.row(row)), column, length, own, value, ends);
                }
            }
            ComptimeOption::None => {}
        }
        first += stride;
    }
    #[comptime]
    match partials.as_mut() {
        ComptimeOption::Some(partials) => {
            let (of_gamma, end) = head.partials(group, groups, length);
            let of_beta = if comptime!(wanted.gamma) { end + of_gamma } else { of_gamma };
            let mut meeting = Meeting::<A, V>::new(blueprint);
            if comptime!(wanted.gamma) {
                meeting.store(partials, of_gamma, length, &gamma_sums);
            }
            if comptime!(wanted.beta) {
                meeting.store(partials, of_beta, length, &beta_sums);
            }
        }
        ComptimeOption::None => {}
    }
}

/// A unit's sums over its rows, in registers, or in shared memory where those are too few.
#[derive(CubeType)]
struct Sums<A: Float, V: Size> {
    held: Array<Vector<A, V>>,
    shared: ComptimeOption<Shared<[Vector<A, V>]>>,
    #[cube(comptime)]
    blueprint: Blueprint,
}

#[cube]
impl<A: Float, V: Size> Sums<A, V> {
    fn new(#[comptime] wanted: bool, #[comptime] blueprint: Blueprint) -> Self {
        let mut held = Array::<Vector<A, V>>::new(blueprint.held);
        let shared = if comptime!(wanted && blueprint.shares_sums) {
            let places = comptime!(blueprint.held * blueprint.lanes);
            let mut shared = Shared::<[Vector<A, V>]>::new_slice(places);
            #[unroll]
            for i in 0..blueprint.held {
                shared[i * blueprint.lanes + lane(blueprint)] = Vector::zero();
            }
            ComptimeOption::new_Some(shared)
        } else {
            #[unroll]
            for i in 0..blueprint.held {
                held[i] = Vector::zero();
            }
            ComptimeOption::new_None()
        };
        Sums::<A, V> { held, shared, blueprint }
    }

    fn add(&mut self, #[comptime] i: usize, term: Vector<A, V>) {
        let blueprint = self.blueprint;
        #[comptime]
        match self.shared.as_mut() {
            ComptimeOption::Some(shared) => {
                shared[i * blueprint.lanes + lane(blueprint)] += term;
            }
            ComptimeOption::None => self.held[i] += term,
        }
    }

    fn get(&self, #[comptime] i: usize) -> Vector<A, V> {
        let blueprint = self.blueprint;
        #[comptime]
        match self.shared.as_ref() {
            ComptimeOption::Some(shared) => shared[i * blueprint.lanes + lane(blueprint)],
            ComptimeOption::None => self.held[i],
        }
    }
}

/// A unit's part of the row that is worked on, and of those that are loaded ahead of it.
#[derive(CubeType)]
struct Window<F: Numeric, Y: Numeric, A: Float, V: Size> {
    x: Array<Vector<F, V>>,
    dy: Array<Vector<Y, V>>,
    inverse_root: Array<A>,
    near: Array<A>,
    rest: Array<A>,
}

#[cube]
impl<F: Numeric, Y: Numeric, A: Float, V: Size> Window<F, Y, A, V> {
    fn new(#[comptime] blueprint: Blueprint) -> Self {
        let slots = comptime!(blueprint.ahead + 1);
        let vectors = comptime!(slots * blueprint.held);
        Window::<F, Y, A, V> {
            x: Array::new(vectors),
            dy: Array::new(vectors),
            inverse_root: Array::new(slots),
            near: Array::new(slots),
            rest: Array::new(slots),
        }
    }

    /// Moves each row one slot on.
    fn advance(&mut self, #[comptime] blueprint: Blueprint) {
        let held = blueprint.held;
        #[unroll]
        for i in 0..comptime!(blueprint.ahead * held) {
            self.x[i] = self.x[comptime!(i + held)];
            self.dy[i] = self.dy[comptime!(i + held)];
        }
        #[unroll]
        for slot in 0..blueprint.ahead {
            self.inverse_root[slot] = self.inverse_root[comptime!(slot + 1)];
            self.near[slot] = self.near[comptime!(slot + 1)];
            self.rest[slot] = self.rest[comptime!(slot + 1)];
        }
    }

    /// Those of the row that is worked on.
    fn statistics(&self) -> Statistics<A> {
        Statistics::<A> {
            inverse_root: self.inverse_root[0],
            near: self.near[0],
            rest: self.rest[0],
        }
    }
}

/// Loads a row into a slot of the window. Where there is no such row, which must add nothing to a
/// team's sums, zeros; nothing in a cube with one team, which has no use for it.
#[cube]
fn load_row<F: Numeric, Y: Numeric, A: Float, V: Size>(
    window: &mut Window<F, Y, A, V>,
    dy: &[Vector<Y, V>],
    x: &[Vector<F, V>],
    saved: &[A],
    dy_rows: &Rows,
    x_rows: &Rows,
    head: &Head,
    row: usize,
    rows: usize,
    length: &Length,
    #[comptime] slot: usize,
    #[comptime] formula: Formula,
    #[comptime] blueprint: Blueprint,
) {
    // A branch, past which NVIDIA's assembler does not move the loads: RMSNorm, 8,192×4,096 bf16, takes
    // 53.6 µs on an H200, 61.3 where they were moved behind the barrier.
    if row < rows {
        let lane = lane(blueprint);
        let at = comptime!(slot * blueprint.held);
        let (row, rows) = (head.row(row), head.all(rows));
        load_any(x, &x_rows.row(row), lane, length, &mut window.x, at, blueprint);
        load_any(dy, &dy_rows.row(row), lane, length, &mut window.dy, at, blueprint);
        let statistics = saved_statistics::<A>(saved, row, rows, formula);
        window.inverse_root[slot] = statistics.inverse_root;
        window.near[slot] = statistics.near;
        window.rest[slot] = statistics.rest;
    } else if comptime!(blueprint.teams > 1) {
        #[unroll]
        for i in 0..blueprint.held {
            let place = comptime!(slot * blueprint.held + i);
            window.x[place] = Vector::zero();
            window.dy[place] = Vector::zero();
        }
        window.inverse_root[slot] = A::new(0.0);
        window.near[slot] = A::new(0.0);
        window.rest[slot] = A::new(0.0);
    }
}

/// Where the teams of a cube add up what each has summed over its rows.
#[derive(CubeType)]
struct Meeting<A: Float, V: Size> {
    places: ComptimeOption<Shared<[Vector<A, V>]>>,
    #[cube(comptime)]
    blueprint: Blueprint,
}

#[cube]
impl<A: Float, V: Size> Meeting<A, V> {
    fn new(#[comptime] blueprint: Blueprint) -> Self {
        let places = if comptime!(blueprint.teams > 1) {
            let places = comptime!(blueprint.teams * blueprint.held * blueprint.lanes);
            ComptimeOption::new_Some(Shared::<[Vector<A, V>]>::new_slice(places))
        } else {
            ComptimeOption::new_None()
        };
        Meeting::<A, V> { places, blueprint }
    }

    /// Stores the sum of the teams' `sums` from `at` on. Every unit of the cube must call it.
    fn store(
        &mut self,
        partials: &mut [Vector<A, V>],
        at: usize,
        length: &Length,
        sums: &Sums<A, V>,
    ) {
        let blueprint = self.blueprint;
        let lane = lane(blueprint);
        let (held, lanes, teams) = (blueprint.held, blueprint.lanes, blueprint.teams);
        #[comptime]
        match self.places.as_mut() {
            ComptimeOption::Some(places) => {
                let span = comptime!(held * lanes);
                let own = team_in_cube(blueprint);
                #[unroll]
                for i in 0..held {
                    places[own * span + i * lanes + lane] = sums.get(i);
                }
                sync_cube();
                let mut column = own * lanes + lane;
                while column < length.vectors {
                    let mut sum = places[column];
                    for team in 1..teams {
                        sum += places[team * span + column];
                    }
                    partials[at + column] = sum;
                    column += comptime!(teams * lanes);
                }
                // Before another parameter's sums take these places.
                sync_cube();
            }
            ComptimeOption::None =>
            {
                #[unroll]
                for i in 0..held {
                    let ends = comptime!(blueprint.ends_of(i));
                    let column = lane + i * lanes;
                    if is_inside(column, length, ends) {
                        partials[at + column] = sums.get(i);
                    }
                }
            }
        }
    }
}
