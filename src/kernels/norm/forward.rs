use super::{
    Extent, Types, op,
    statistics::{Formula, Statistics, statistics},
};
use crate::kernels::{
    ahead::Coming,
    matrix::{Matrix, Output},
    plan::{Blueprint, Pass, address, cubes},
    row::{EvenRows, Kept, Length, Row, Rows, chunks, load, read_any, store},
    team::{Team, lane, team_in_cube, team_position},
};
use cubecl::{client::Client, ir::ElemType, prelude::*, server::Handle};

/// A forward pass. `statistics` are contiguous and written whole.
pub(crate) struct Forward {
    pub extent: Extent,
    pub types: Types,
    /// Whether the mean is subtracted: LayerNorm.
    pub centered: bool,
    pub epsilon: f64,
    pub x: Matrix,
    pub gamma: Option<Handle>,
    pub beta: Option<Handle>,
    pub y: Output,
    /// `[1, rows]`, or `[3, rows]` where the mean is subtracted.
    pub statistics: Option<Handle>,
}

impl Forward {
    pub(crate) fn launch(self, client: &Client) {
        let Extent { rows, columns, width, hardware } = self.extent;
        let length = self.extent.length();
        let size = self.types.x.size();
        let blueprint =
            Blueprint::new(op(self.centered), Pass::Forward, columns, width, size, hardware);
        log::trace!("{:?}: {rows}×{columns}, {:?}, {blueprint:?}", op(self.centered), self.types);
        let formula = Formula::new(self.centered, self.types);
        let saved = formula.saved(rows);
        let address_type = address(self.y.len(rows).max(self.x.len).max(saved).max(2 * rows));
        let (x, x_rows) = self.x.args(width);
        let (y, y_rows) = self.y.args(rows, width);
        // Not rounded to zero.
        let least = f64::from(f32::from_bits(1));
        let epsilon = if self.epsilon > 0.0 { self.epsilon.max(least) } else { 0.0 };
        // SAFETY: lengths are what the handles span; rows and columns past the end are not touched.
        // Where `y` is `x`, a unit writes what only it has use for, and has read; what others read
        // of that they discard.
        unsafe {
            let buffer = |handle, len| BufferArg::from_raw_parts(handle, len);
            norm_kernel::launch_unchecked(
                client,
                cubes(blueprint.cubes(rows, hardware), 1, client),
                blueprint.cube_dim(),
                address_type,
                width,
                x,
                self.gamma.map(|gamma| buffer(gamma, columns)).into(),
                self.beta.map(|beta| buffer(beta, columns)).into(),
                y,
                self.statistics.map(|statistics| buffer(statistics, saved)).into(),
                x_rows,
                y_rows,
                rows,
                length,
                InputScalar::new(epsilon, self.types.accumulator),
                formula,
                blueprint,
                self.types.x,
                self.types.gamma,
                self.types.beta,
                self.types.accumulator,
            );
        }
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn norm_kernel<F: Float, G: Float, B: Float, A: Float, V: Size>(
    x: &[Vector<F, V>],
    gamma: ComptimeOption<&[Vector<G, V>]>,
    beta: ComptimeOption<&[Vector<B, V>]>,
    y: &mut [Vector<F, V>],
    mut saved: ComptimeOption<Box<[A]>>,
    x_rows: Rows,
    y_rows: EvenRows,
    rows: usize,
    length: Length,
    epsilon: InputScalar,
    #[comptime] formula: Formula,
    #[comptime] blueprint: Blueprint,
    #[define(F)] _x_type: ElemType,
    #[define(G)] _gamma_type: ElemType,
    #[define(B)] _beta_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let epsilon = epsilon.get::<A>();
    let mut team = Team::<A>::new(!formula.narrow, blueprint);
    let parameters = Parameters::<G, B, V>::new(gamma, beta, lane(blueprint), &length, blueprint);
    let mut kept = Kept::<F, V>::new(blueprint);
    let mut held = Array::<Vector<F, V>>::new(blueprint.held);
    let row = team_position(blueprint);
    if comptime!(blueprint.ahead > 0) {
        let stride = CUBE_COUNT * blueprint.teams;
        let mut coming = Coming::<F, V>::new(x, &x_rows, row, stride, rows, &length, blueprint);
        // The same for all teams of a cube, as barriers ask for.
        let mut first = CUBE_POS * blueprint.teams;
        while first < rows {
            let row = first + team_in_cube(blueprint);
            coming.take(x, &x_rows, row, &length, &mut held);
            forward_row::<F, G, B, A, V>(
                x,
                gamma,
                beta,
                y,
                &mut saved,
                &x_rows,
                &y_rows,
                row,
                rows,
                &length,
                epsilon,
                &parameters,
                &mut held,
                &mut kept,
                &mut team,
                formula,
                blueprint,
            );
            first += stride;
        }
    } else {
        if comptime!(!blueprint.chunked) {
            let from = x_rows.row(usize::min(row, rows - 1));
            load(x, &from, lane(blueprint), &length, &mut held, blueprint);
        }
        forward_row::<F, G, B, A, V>(
            x,
            gamma,
            beta,
            y,
            &mut saved,
            &x_rows,
            &y_rows,
            row,
            rows,
            &length,
            epsilon,
            &parameters,
            &mut held,
            &mut kept,
            &mut team,
            formula,
            blueprint,
        );
    }
}

/// A row, which is held unless it is chunked.
#[cube]
fn forward_row<F: Float, G: Float, B: Float, A: Float, V: Size>(
    x: &[Vector<F, V>],
    gamma: ComptimeOption<&[Vector<G, V>]>,
    beta: ComptimeOption<&[Vector<B, V>]>,
    y: &mut [Vector<F, V>],
    saved: &mut ComptimeOption<Box<[A]>>,
    x_rows: &Rows,
    y_rows: &EvenRows,
    row: usize,
    rows: usize,
    length: &Length,
    epsilon: A,
    parameters: &Parameters<G, B, V>,
    held: &mut Array<Vector<F, V>>,
    kept: &mut Kept<F, V>,
    team: &mut Team<A>,
    #[comptime] formula: Formula,
    #[comptime] blueprint: Blueprint,
) {
    let lane = lane(blueprint);
    // Every unit takes part where others wait for it.
    let own = row < rows;
    let row = usize::min(row, rows - 1);
    let from = x_rows.row(row);
    let to = y_rows.row(row);
    let row_statistics =
        statistics::<F, A, V>(x, &from, held, kept, length, epsilon, team, formula, blueprint);
    save(saved, &row_statistics, row, rows, own && lane == 0, formula);
    if comptime!(blueprint.chunked) {
        // The last chunk first, which is still held.
        let chunks = chunks(length, blueprint);
        let mut left = chunks;
        while left > 0 {
            let start = lane + (left - 1) * comptime!(blueprint.held * blueprint.lanes);
            if left < chunks {
                kept.load_again(x, &from, start, length, held);
            }
            write::<F, G, B, A, V>(
                held,
                gamma,
                beta,
                y,
                &to,
                start,
                length,
                own,
                &row_statistics,
                parameters,
                formula,
                blueprint,
            );
            left -= 1;
        }
    } else {
        write::<F, G, B, A, V>(
            held,
            gamma,
            beta,
            y,
            &to,
            lane,
            length,
            own,
            &row_statistics,
            parameters,
            formula,
            blueprint,
        );
    }
}

/// Keeps a row's statistics for the backward pass, if they are wanted.
#[cube]
fn save<A: Float>(
    saved: &mut ComptimeOption<Box<[A]>>,
    row_statistics: &Statistics<A>,
    row: usize,
    rows: usize,
    own: bool,
    #[comptime] formula: Formula,
) {
    #[comptime]
    match saved.as_mut() {
        ComptimeOption::Some(saved) => {
            if own {
                saved[row] = row_statistics.inverse_root;
                if comptime!(formula.centered) {
                    saved[rows + row] = row_statistics.near;
                    saved[2 * rows + row] = row_statistics.rest;
                }
            }
        }
        ComptimeOption::None => {}
    }
}

/// Writes what is held of a row from `start` on, normalised.
#[cube]
fn write<F: Float, G: Float, B: Float, A: Float, V: Size>(
    held: &mut Array<Vector<F, V>>,
    gamma: ComptimeOption<&[Vector<G, V>]>,
    beta: ComptimeOption<&[Vector<B, V>]>,
    y: &mut [Vector<F, V>],
    to: &Row,
    start: usize,
    length: &Length,
    own: bool,
    row_statistics: &Statistics<A>,
    parameters: &Parameters<G, B, V>,
    #[comptime] formula: Formula,
    #[comptime] blueprint: Blueprint,
) {
    #[unroll]
    for i in 0..blueprint.held {
        let column = start + i * blueprint.lanes;
        let normalized = row_statistics.normalized::<F, V>(held[i], formula);
        let value = parameters.applied::<A>(normalized, gamma, beta, i, column, length);
        let ends = comptime!(blueprint.ends_of(i));
        store(y, to, column, length, own, Vector::cast_from(value), ends);
    }
}

/// A unit's part of the parameters, where it is loaded before a row's sums are known.
#[derive(CubeType)]
struct Parameters<G: Float, B: Float, V: Size> {
    gamma: Array<Vector<G, V>>,
    beta: Array<Vector<B, V>>,
    #[cube(comptime)]
    blueprint: Blueprint,
}

#[cube]
impl<G: Float, B: Float, V: Size> Parameters<G, B, V> {
    fn new(
        gamma: ComptimeOption<&[Vector<G, V>]>,
        beta: ComptimeOption<&[Vector<B, V>]>,
        lane: usize,
        length: &Length,
        #[comptime] blueprint: Blueprint,
    ) -> Self {
        let mut gammas = Array::<Vector<G, V>>::new(blueprint.held);
        let mut betas = Array::<Vector<B, V>>::new(blueprint.held);
        if comptime!(blueprint.parameters) {
            #[comptime]
            match gamma {
                ComptimeOption::Some(gamma) => {
                    load(gamma, &Row::only(), lane, length, &mut gammas, blueprint);
                }
                ComptimeOption::None => {}
            }
            #[comptime]
            match beta {
                ComptimeOption::Some(beta) => {
                    load(beta, &Row::only(), lane, length, &mut betas, blueprint);
                }
                ComptimeOption::None => {}
            }
        }
        Parameters::<G, B, V> { gamma: gammas, beta: betas, blueprint }
    }

    /// `value·γ + β` at the unit's place `i`, which is `column`.
    fn applied<A: Float>(
        &self,
        value: Vector<A, V>,
        gamma: ComptimeOption<&[Vector<G, V>]>,
        beta: ComptimeOption<&[Vector<B, V>]>,
        #[comptime] i: usize,
        column: usize,
        length: &Length,
    ) -> Vector<A, V> {
        let blueprint = self.blueprint;
        let ends = comptime!(blueprint.ends_of(i));
        let mut value = value;
        #[comptime]
        match gamma {
            ComptimeOption::Some(gamma) => {
                let gamma = if comptime!(blueprint.parameters) {
                    self.gamma[i]
                } else {
                    read_any(gamma, &Row::only(), column, length, ends)
                };
                value *= Vector::<A, V>::cast_from(gamma);
            }
            ComptimeOption::None => {}
        }
        #[comptime]
        match beta {
            ComptimeOption::Some(beta) => {
                let beta = if comptime!(blueprint.parameters) {
                    self.beta[i]
                } else {
                    read_any(beta, &Row::only(), column, length, ends)
                };
                value += Vector::<A, V>::cast_from(beta);
            }
            ComptimeOption::None => {}
        }
        value
    }
}
