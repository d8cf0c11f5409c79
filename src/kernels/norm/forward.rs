use super::{
    Extent, Types, op,
    statistics::{Formula, Statistics, statistics},
};
use crate::kernels::{
    matrix::{Matrix, Output},
    plan::{Blueprint, Pass, address, cubes},
    row::{EvenRows, Kept, Length, Row, Rows, load, read, store},
    team::{Team, lane, team_position},
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
        let formula = Formula::new(self.centered, self.types);
        let saved = formula.saved(rows);
        let address_type = address(self.y.len(rows).max(self.x.len).max(saved));
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
            forward_kernel::launch_unchecked(
                client,
                cubes(rows.div_ceil(blueprint.teams), 1, client),
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
fn forward_kernel<F: Float, G: Float, B: Float, A: Float, V: Size>(
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
    let lane = lane(blueprint);
    let mut team = Team::<A>::new(!formula.narrow, blueprint);
    let row = team_position(blueprint);
    // Every unit takes part where others wait for it.
    let own = row < rows;
    let row = usize::min(row, rows - 1);
    let from = x_rows.row(row);
    let to = y_rows.row(row);
    let mut held = Array::<Vector<F, V>>::new(blueprint.held);
    if comptime!(!blueprint.chunked) {
        load(x, &from, lane, &length, &mut held, blueprint);
    }
    let mut kept = Kept::<F, V>::new(blueprint);
    let epsilon = epsilon.get::<A>();
    let row_statistics = statistics::<F, A, V>(
        x, &from, &mut held, &mut kept, &length, epsilon, &mut team, formula, blueprint,
    );
    #[comptime]
    match saved.as_mut() {
        ComptimeOption::Some(saved) => {
            if own && lane == 0 {
                saved[row] = row_statistics.inverse_root;
                if comptime!(formula.centered) {
                    saved[rows + row] = row_statistics.near;
                    saved[2 * rows + row] = row_statistics.rest;
                }
            }
        }
        ComptimeOption::None => {}
    }
    let mut start = lane;
    if comptime!(blueprint.chunked) {
        while start < length.vectors + lane {
            kept.load_again(x, &from, start, &length, &mut held);
            write_normalized::<F, G, B, A, V>(
                &held,
                gamma,
                beta,
                y,
                &to,
                start,
                &length,
                own,
                &row_statistics,
                formula,
                blueprint,
            );
            start += comptime!(blueprint.held * blueprint.lanes);
        }
    } else {
        write_normalized::<F, G, B, A, V>(
            &held,
            gamma,
            beta,
            y,
            &to,
            start,
            &length,
            own,
            &row_statistics,
            formula,
            blueprint,
        );
    }
}

#[cube]
fn write_normalized<F: Float, G: Float, B: Float, A: Float, V: Size>(
    held: &Array<Vector<F, V>>,
    gamma: ComptimeOption<&[Vector<G, V>]>,
    beta: ComptimeOption<&[Vector<B, V>]>,
    y: &mut [Vector<F, V>],
    to: &Row,
    start: usize,
    length: &Length,
    own: bool,
    row_statistics: &Statistics<A>,
    #[comptime] formula: Formula,
    #[comptime] blueprint: Blueprint,
) {
    #[unroll]
    for i in 0..blueprint.held {
        let ends = comptime!(blueprint.ends_of(i));
        let column = start + i * blueprint.lanes;
        let mut value = row_statistics.normalized::<F, V>(held[i], formula);
        #[comptime]
        match gamma {
            ComptimeOption::Some(gamma) => {
                let gamma = read(gamma, &Row::only(), column, length, ends);
                value *= Vector::<A, V>::cast_from(gamma);
            }
            ComptimeOption::None => {}
        }
        #[comptime]
        match beta {
            ComptimeOption::Some(beta) => {
                let beta = read(beta, &Row::only(), column, length, ends);
                value += Vector::<A, V>::cast_from(beta);
            }
            ComptimeOption::None => {}
        }
        store(y, to, column, length, own, Vector::cast_from(value), ends);
    }
}
