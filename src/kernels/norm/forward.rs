mod parameters;

use super::{
    Extent, Types,
    head::Head,
    op,
    statistics::{Formula, Statistics, statistics},
};
use crate::kernels::{
    ahead::Coming,
    matrix::{Matrix, Output},
    plan::{Blueprint, Pass, address, cubes},
    row::{EvenRows, Length, Row, Rows, chunks, store},
    source::{Kept, Source},
    team::{Team, lane, team_in_cube, team_position},
};
use cubecl::{client::Client, ir::ElemType, prelude::*, server::Handle};
use parameters::Parameters;

/// Positions among the kernel's buffers of those that outputs can be written over.
pub(crate) const X: usize = 0;
pub(crate) const RESIDUAL: usize = 1;

/// A forward pass. `statistics` are contiguous and written whole.
pub(crate) struct Forward {
    pub extent: Extent,
    pub types: Types,
    /// Whether the mean is subtracted: LayerNorm.
    pub centered: bool,
    /// Whether gamma is kept less 1.
    pub zero_centered_gamma: bool,
    pub epsilon: f64,
    pub x: Matrix,
    pub residual: Option<Residual>,
    pub gamma: Option<Handle>,
    pub beta: Option<Handle>,
    pub y: Output,
    /// `[1, rows]`, or `[3, rows]` where the mean is subtracted.
    pub statistics: Option<Handle>,
}

/// What is added to x, and where the sum is written whole, rounded to x's type.
pub(crate) struct Residual {
    pub matrix: Matrix,
    pub sum: Output,
}

impl Forward {
    pub(crate) fn launch(self, client: &Client) {
        let Extent { rows, columns, heads, width, hardware } = self.extent;
        let length = self.extent.length();
        let size = self.types.x.size();
        let of = op(self.centered);
        let mut blueprint = Blueprint::new(of, Pass::Forward, columns, width, size, hardware);
        if self.residual.is_some() || heads > 1 {
            // Two rows would have to be loaded ahead; the next one has other parameters.
            blueprint.ahead = 0;
        }
        let sum = if self.residual.is_some() { " of a sum" } else { "" };
        log::trace!("{of:?}{sum}: {rows}×{columns}, {:?}, {blueprint:?}", self.types);
        // Statistics are also those of gradients in x's type.
        let Types { x: x_type, y: y_type, accumulator, .. } = self.types;
        let wider = if x_type.size() > y_type.size() { x_type } else { y_type };
        let formula = Formula::new(self.centered, self.zero_centered_gamma, wider, accumulator);
        let saved = formula.saved(rows);
        let of_sum = |r: &Residual| r.matrix.len.max(r.sum.len(rows));
        let len = self.y.len(rows).max(self.residual.as_ref().map_or(0, of_sum));
        let address_type = address(len.max(self.x.len).max(saved).max(2 * rows));
        let (x, x_rows) = self.x.args(width);
        let added = self.residual.map(|r| (r.matrix.args(width), r.sum.args(rows, width)));
        let (residual, sum) = added.unzip();
        let (residual, residual_rows) = residual.unzip();
        let (sum, sum_rows) = sum.unzip();
        let (y, y_rows) = self.y.args(rows, width);
        // Not rounded to zero.
        let least = match self.types.accumulator.size() {
            8 => f64::from_bits(1),
            _ => f64::from(f32::from_bits(1)),
        };
        let epsilon = if self.epsilon > 0.0 { self.epsilon.max(least) } else { 0.0 };
        // SAFETY: lengths are what the handles span; rows and columns past the end are not written, and
        // read as the last ones. Where `y` is `x` or the sum the residual, a unit writes what only it has use
        // for, and has read; what others read of that they discard.
        unsafe {
            let buffer = |handle, len| BufferArg::from_raw_parts(handle, len);
            norm_kernel::launch_unchecked(
                client,
                cubes(blueprint.cubes(rows, hardware), 1, client),
                blueprint.cube_dim(),
                address_type,
                width,
                x,
                residual.into(),
                self.gamma.map(|gamma| buffer(gamma, heads * columns)).into(),
                self.beta.map(|beta| buffer(beta, heads * columns)).into(),
                y,
                sum.into(),
                self.statistics.map(|statistics| buffer(statistics, saved)).into(),
                x_rows,
                residual_rows.into(),
                y_rows,
                sum_rows.into(),
                self.extent.heads().into(),
                rows,
                length,
                InputScalar::new(epsilon, self.types.accumulator),
                formula,
                blueprint,
                self.types.x,
                self.types.y,
                self.types.gamma,
                self.types.beta,
                self.types.accumulator,
            );
        }
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn norm_kernel<F: Numeric, Y: Numeric, G: Numeric, B: Numeric, A: Float, V: Size>(
    x: &[Vector<F, V>],
    residual: ComptimeOption<&[Vector<F, V>]>,
    gamma: ComptimeOption<&[Vector<G, V>]>,
    beta: ComptimeOption<&[Vector<B, V>]>,
    y: &mut [Vector<Y, V>],
    mut sum: ComptimeOption<Box<[Vector<F, V>]>>,
    mut saved: ComptimeOption<Box<[A]>>,
    x_rows: Rows,
    residual_rows: ComptimeOption<Rows>,
    y_rows: EvenRows,
    sum_rows: ComptimeOption<EvenRows>,
    heads: ComptimeOption<usize>,
    rows: usize,
    length: Length,
    epsilon: InputScalar,
    #[comptime] formula: Formula,
    #[comptime] blueprint: Blueprint,
    #[define(F)] _x_type: ElemType,
    #[define(Y)] _y_type: ElemType,
    #[define(G)] _gamma_type: ElemType,
    #[define(B)] _beta_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let epsilon = epsilon.get::<A>();
    let mut team = Team::<A>::new(!formula.narrow, blueprint);
    let mut kept = Kept::<F, V>::new(blueprint);
    let mut held = Array::<Vector<F, V>>::new(blueprint.held);
    let row = team_position(blueprint);
    let head = Head::of_row(row, heads);
    let parameters = Parameters::<G, B, V>::new(gamma, beta, &head, &length, formula, blueprint);
    if comptime!(blueprint.ahead > 0) {
        let stride = CUBE_COUNT * blueprint.teams;
        let mut coming = Coming::<F, V>::new(x, &x_rows, row, stride, rows, &length, blueprint);
        // The same for all teams of a cube, as barriers ask for.
        let mut first = CUBE_POS * blueprint.teams;
        while first < rows {
            let row = first + team_in_cube(blueprint);
            coming.take(x, &x_rows, row, &length, &mut held);
            let source = Source::<F, V>::of(x, x_rows.row(usize::min(row, rows - 1)));
            forward_row::<F, Y, G, B, A, V>(
                &source,
                gamma,
                beta,
                y,
                &mut sum,
                &mut saved,
                &y_rows,
                &sum_rows,
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
        // Every unit takes part where others wait for it.
        let from = usize::min(row, rows - 1);
        let residual_row = residual_rows.map(|rows| rows.row(from));
        let source = Source::<F, V>::sum(x, x_rows.row(from), residual, residual_row);
        if comptime!(!blueprint.chunked) {
            source.load(lane(blueprint), &length, &mut held, blueprint);
        }
        forward_row::<F, Y, G, B, A, V>(
            &source,
            gamma,
            beta,
            y,
            &mut sum,
            &mut saved,
            &y_rows,
            &sum_rows,
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
fn forward_row<F: Numeric, Y: Numeric, G: Numeric, B: Numeric, A: Float, V: Size>(
    source: &Source<F, V>,
    gamma: ComptimeOption<&[Vector<G, V>]>,
    beta: ComptimeOption<&[Vector<B, V>]>,
    y: &mut [Vector<Y, V>],
    sum: &mut ComptimeOption<Box<[Vector<F, V>]>>,
    saved: &mut ComptimeOption<Box<[A]>>,
    y_rows: &EvenRows,
    sum_rows: &ComptimeOption<EvenRows>,
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
    let own = row < rows;
    let row = usize::min(row, rows - 1);
    let to = y_rows.row(row);
    let sum_to = sum_rows.as_ref().map(|rows| rows.row(row));
    let row_statistics =
        statistics::<F, A, V>(source, held, kept, length, epsilon, team, formula, blueprint);
    save(saved, &row_statistics, row, rows, own && lane == 0, formula);
    if comptime!(blueprint.chunked) {
        // The last chunk first, which is still held.
        let chunks = chunks(length, blueprint);
        let mut left = chunks;
        while left > 0 {
            let start = lane + (left - 1) * comptime!(blueprint.held * blueprint.lanes);
            if left < chunks {
                kept.load_again(source, start, length, held);
            }
            write::<F, Y, G, B, A, V>(
                held,
                gamma,
                beta,
                y,
                &to,
                sum,
                &sum_to,
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
        write::<F, Y, G, B, A, V>(
            held,
            gamma,
            beta,
            y,
            &to,
            sum,
            &sum_to,
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

/// Writes what is held of a row from `start` on, normalised, and as it is if it is a sum.
#[cube]
fn write<F: Numeric, Y: Numeric, G: Numeric, B: Numeric, A: Float, V: Size>(
    held: &mut Array<Vector<F, V>>,
    gamma: ComptimeOption<&[Vector<G, V>]>,
    beta: ComptimeOption<&[Vector<B, V>]>,
    y: &mut [Vector<Y, V>],
    to: &Row,
    sum: &mut ComptimeOption<Box<[Vector<F, V>]>>,
    sum_to: &ComptimeOption<Row>,
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
        #[comptime]
        match sum.as_mut() {
            ComptimeOption::Some(sum) => {
                let to = sum_to.as_ref().unwrap();
                store(sum, to, column, length, own, held[i], ends);
            }
            ComptimeOption::None => {}
        }
        store(y, to, column, length, own, value, ends);
    }
}
