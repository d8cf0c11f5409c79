use super::{
    Extent, Types,
    statistics::{Formula, Statistics, statistics},
};
use crate::kernels::{
    plan::{Blueprint, Hardware, Pass, address, cubes},
    row::{Matrix, Rows, Target, bounded, load, store},
    team::{Team, team_position},
};
use cubecl::{CubeDim, client::Client, ir::ElemType, prelude::*, server::Handle};

/// A forward pass. `y` and `statistics` are contiguous and written whole.
pub(crate) struct Forward {
    pub extent: Extent,
    pub types: Types,
    /// Whether the mean is subtracted: LayerNorm.
    pub centered: bool,
    pub epsilon: f64,
    pub x: Matrix,
    pub gamma: Option<Handle>,
    pub beta: Option<Handle>,
    pub y: Target,
    /// `[1, rows]`, or `[3, rows]` where the mean is subtracted.
    pub statistics: Option<Handle>,
}

impl Forward {
    pub(crate) fn launch(self, client: &Client) {
        let Extent { rows, columns, width } = self.extent;
        let vectors = columns / width;
        let hardware = Hardware::of(client);
        let size = self.types.x.size();
        let blueprint = Blueprint::new(Pass::Forward, vectors, width, size, hardware);
        let formula = Formula::new(self.centered, self.types);
        let len = rows * columns;
        let saved = formula.saved(rows);
        let address_type = address(len.max(self.x.len).max(saved));
        let (x, x_rows) = self.x.args(width);
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
                CubeDim::new_2d(blueprint.lanes as u32, blueprint.teams as u32),
                address_type,
                width,
                x,
                self.gamma.map(|gamma| buffer(gamma, columns)).into(),
                self.beta.map(|beta| buffer(beta, columns)).into(),
                self.y.arg(len),
                self.statistics.map(|statistics| buffer(statistics, saved)).into(),
                x_rows,
                rows,
                vectors,
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
    rows: usize,
    vectors: usize,
    epsilon: InputScalar,
    #[comptime] formula: Formula,
    #[comptime] blueprint: Blueprint,
    #[define(F)] _x_type: ElemType,
    #[define(G)] _gamma_type: ElemType,
    #[define(B)] _beta_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let lane = UNIT_POS_X as usize;
    let mut team = Team::<A>::new(!formula.narrow, blueprint);
    let row = team_position(blueprint.teams);
    if row < rows {
        let from = x_rows.offset(row);
        let to = row * vectors;
        let mut held = Array::<Vector<F, V>>::new(blueprint.held);
        if comptime!(!blueprint.chunked) {
            load(x, from, lane, vectors, &mut held, blueprint);
        }
        let epsilon = epsilon.get::<A>();
        let row_statistics = statistics::<F, A, V>(
            x, from, &mut held, vectors, epsilon, &mut team, formula, blueprint,
        );
        #[comptime]
        match saved.as_mut() {
            ComptimeOption::Some(saved) => {
                if lane == 0 {
                    saved[row] = row_statistics.inverse_root;
                    if comptime!(formula.centered) {
                        saved[rows + row] = row_statistics.near;
                        saved[2 * rows + row] = row_statistics.rest;
                    }
                }
            }
            ComptimeOption::None => {}
        }
        if comptime!(blueprint.chunked) {
            let mut start = lane;
            while start < vectors + lane {
                load(x, from, start, vectors, &mut held, blueprint);
                write_normalized::<F, G, B, A, V>(
                    &held,
                    gamma,
                    beta,
                    y,
                    to,
                    start,
                    vectors,
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
                to,
                lane,
                vectors,
                &row_statistics,
                formula,
                blueprint,
            );
        }
    }
}

#[cube]
fn write_normalized<F: Float, G: Float, B: Float, A: Float, V: Size>(
    held: &Array<Vector<F, V>>,
    gamma: ComptimeOption<&[Vector<G, V>]>,
    beta: ComptimeOption<&[Vector<B, V>]>,
    y: &mut [Vector<F, V>],
    to: usize,
    start: usize,
    vectors: usize,
    row_statistics: &Statistics<A>,
    #[comptime] formula: Formula,
    #[comptime] blueprint: Blueprint,
) {
    #[unroll]
    for i in 0..blueprint.held {
        let column = start + i * blueprint.lanes;
        let read = bounded(column, vectors, blueprint);
        let mut value = row_statistics.normalized::<F, V>(held[i], formula);
        #[comptime]
        match gamma {
            ComptimeOption::Some(gamma) => value *= Vector::<A, V>::cast_from(gamma[read]),
            ComptimeOption::None => {}
        }
        #[comptime]
        match beta {
            ComptimeOption::Some(beta) => value += Vector::<A, V>::cast_from(beta[read]),
            ComptimeOption::None => {}
        }
        store(y, to, column, vectors, Vector::cast_from(value), blueprint);
    }
}
