//! Rows that are too wide for a cube to hold what it needs of them: one kernel takes their means,
//! another the gradients, each cube in a tile of columns, where the sums over its rows fit.

use super::{
    Backward, Formula, Means, Wanted, Work, args, chunked, input_gradient, saved_statistics,
};
use crate::kernels::{
    norm::{factor, head::Head, statistics::Statistics},
    plan::{Blueprint, Tile, cubes},
    row::{EvenRows, Length, Rows, read, read_any, store},
    stored::widened,
    team::Team,
};
use cubecl::{CubeDim, client::Client, ir::ElemType, prelude::*, server::Handle};

/// Writes `dx` and the groups' partial sums.
pub(super) fn launch(call: Backward, partials: (Handle, usize), work: Work, client: &Client) {
    let Work { groups, formula, wanted, blueprint, address_type } = work;
    let Backward { extent, types, dy, x, elsewhere, gamma, statistics, dx, .. } = call;
    let (rows, width) = (extent.rows, extent.width);
    let saved = formula.saved(rows);
    let tile = Tile::new(blueprint, width);
    let means_len = if formula.centered { 2 * rows } else { rows };
    let means = dx.is_some().then(|| client.empty(means_len * types.accumulator.size()));
    // SAFETY: lengths are what the handles span; rows and columns past the end are not written, and
    // read as the last ones. Where `dx` is `dy` or `elsewhere`, a unit writes what only it has use for, and has read;
    // what others read of that they discard.
    unsafe {
        let buffer = |handle: &Handle, len| BufferArg::from_raw_parts(handle.clone(), len);
        if let Some(means) = &means {
            let (dy, dy_rows) = dy.clone().args(width);
            let (x, x_rows) = x.clone().args(width);
            norm_backward_means_kernel::launch_unchecked(
                client,
                cubes(rows, 1, client),
                CubeDim::new_1d(blueprint.lanes as u32),
                address_type,
                width,
                dy,
                x,
                gamma.as_ref().map(|gamma| buffer(gamma, extent.heads * extent.columns)).into(),
                buffer(&statistics, saved),
                buffer(means, means_len),
                dy_rows,
                x_rows,
                extent.heads().into(),
                rows,
                extent.length(),
                formula,
                blueprint,
                types.x,
                types.y,
                types.gamma,
                types.accumulator,
            );
        }
        let (dy, dy_rows) = dy.args(width);
        let (x, x_rows) = x.args(width);
        let (elsewhere, elsewhere_rows) = elsewhere.map(|matrix| matrix.args(width)).unzip();
        let (dx, dx_rows) = args(dx, rows, width);
        let tiles = extent.columns.div_ceil(width * tile.lanes);
        norm_backward_tile_kernel::launch_unchecked(
            client,
            cubes(tiles * groups * extent.heads, 1, client),
            CubeDim::new_1d(tile.lanes as u32),
            address_type,
            width,
            dy,
            x,
            elsewhere.into(),
            gamma.as_ref().map(|gamma| buffer(gamma, extent.heads * extent.columns)).into(),
            buffer(&statistics, saved),
            means.as_ref().map(|means| buffer(means, means_len)).into(),
            dx.into(),
            BufferArg::from_raw_parts(partials.0, partials.1),
            dy_rows,
            x_rows,
            elsewhere_rows.into(),
            dx_rows,
            extent.heads().into(),
            rows / extent.heads,
            extent.length(),
            groups,
            formula,
            wanted,
            tile,
            types.x,
            types.y,
            types.gamma,
            types.accumulator,
        );
    }
}

/// Each row's means: `slope`, and after those of all rows `level`.
#[cube(launch_unchecked, address_type = "dynamic")]
fn norm_backward_means_kernel<F: Numeric, Y: Numeric, G: Numeric, A: Float, V: Size>(
    dy: &[Vector<Y, V>],
    x: &[Vector<F, V>],
    gamma: ComptimeOption<&[Vector<G, V>]>,
    saved: &[A],
    row_means: &mut [A],
    dy_rows: Rows,
    x_rows: Rows,
    heads: ComptimeOption<usize>,
    rows: usize,
    length: Length,
    #[comptime] formula: Formula,
    #[comptime] blueprint: Blueprint,
    #[define(F)] _x_type: ElemType,
    #[define(Y)] _y_type: ElemType,
    #[define(G)] _gamma_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let row = CUBE_POS;
    if row < rows {
        let mut team = Team::<A>::new(!formula.narrow, blueprint);
        let statistics = saved_statistics::<A>(saved, row, rows, formula);
        let (from_dy, from_x) = (dy_rows.row(row), x_rows.row(row));
        let parameters = Head::of_row(row, heads).parameters(&length);
        let found = chunked::row_means::<F, Y, G, A, V>(
            dy,
            x,
            gamma,
            &parameters,
            &from_dy,
            &from_x,
            &length,
            &statistics,
            &mut team,
            formula,
            blueprint,
        );
        if UNIT_POS_X == 0 {
            row_means[row] = found.slope;
            if comptime!(formula.centered) {
                row_means[rows + row] = found.level;
            }
        }
    }
}

/// A group of rows in a tile of columns, a vector of which is each unit's.
#[cube(launch_unchecked, address_type = "dynamic")]
fn norm_backward_tile_kernel<F: Numeric, Y: Numeric, G: Numeric, A: Float, V: Size>(
    dy: &[Vector<Y, V>],
    x: &[Vector<F, V>],
    elsewhere: ComptimeOption<&[Vector<F, V>]>,
    gamma: ComptimeOption<&[Vector<G, V>]>,
    saved: &[A],
    row_means: ComptimeOption<&[A]>,
    mut dx: ComptimeOption<Box<[Vector<F, V>]>>,
    partials: &mut [Vector<A, V>],
    dy_rows: Rows,
    x_rows: Rows,
    elsewhere_rows: ComptimeOption<Rows>,
    dx_rows: EvenRows,
    heads: ComptimeOption<usize>,
    rows: usize,
    length: Length,
    groups: usize,
    #[comptime] formula: Formula,
    #[comptime] wanted: Wanted,
    #[comptime] tile: Tile,
    #[define(F)] _x_type: ElemType,
    #[define(Y)] _y_type: ElemType,
    #[define(G)] _gamma_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let tiles = length.vectors.div_ceil(tile.lanes);
    let place = CUBE_POS / tiles;
    let (head, group) = Head::of_group(place, groups, heads);
    let all = head.all(rows);
    let column = CUBE_POS % tiles * tile.lanes + UNIT_POS_X as usize;
    let own = place < head.all(groups) && column < length.vectors;
    let column = usize::min(column, length.vectors - 1);
    let mut scale = Vector::<A, V>::new(A::new(1.0));
    #[comptime]
    match gamma {
        ComptimeOption::Some(gamma) => {
            let gamma = read(gamma, &head.parameters(&length), column, &length, tile.ends);
            scale = factor::<G, A, V>(gamma, formula);
        }
        ComptimeOption::None => {}
    }
    let mut gamma_sum = Vector::<A, V>::zero();
    let mut beta_sum = Vector::<A, V>::zero();
    let mut first = group;
    while first < rows {
        let mut xs = Sequence::<Vector<F, V>>::new();
        let mut dys = Sequence::<Vector<Y, V>>::new();
        let mut arriving = Sequence::<Vector<F, V>>::new();
        let mut saved_of_rows = Sequence::<Statistics<A>>::new();
        let mut means_of_rows = Sequence::<Means<A>>::new();
        #[unroll]
        for i in 0..tile.rows {
            let row = head.row(usize::min(first + i * groups, rows - 1));
            // Past a row's end what is loaded is not stored.
            xs.push(read_any(x, &x_rows.row(row), column, &length, tile.ends));
            dys.push(read_any(dy, &dy_rows.row(row), column, &length, tile.ends));
            #[comptime]
            match elsewhere {
                ComptimeOption::Some(elsewhere) => {
                    let from = elsewhere_rows.as_ref().unwrap().row(row);
                    arriving.push(read_any(elsewhere, &from, column, &length, tile.ends));
                }
                ComptimeOption::None => {}
            }
            saved_of_rows.push(saved_statistics::<A>(saved, row, all, formula));
            means_of_rows.push(found_means::<A>(row_means, row, all, formula));
        }
        #[unroll]
        for i in 0..tile.rows {
            let row = first + i * groups;
            if row < rows {
                let statistics = saved_of_rows.index(i);
                let normalized = statistics.normalized::<F, V>(*xs.index(i), formula);
                let dy = widened::<Y, A, V>(*dys.index(i));
                gamma_sum += dy * normalized;
                beta_sum += dy;
                #[comptime]
                match dx.as_mut() {
                    ComptimeOption::Some(dx) => {
                        let found = means_of_rows.index(i);
                        let r = statistics.inverse_root;
                        let scaled = dy * scale;
                        let mut value =
                            input_gradient::<A, V>(normalized, scaled, r, found, formula);
                        if comptime!(elsewhere.is_some()) {
                            value += widened::<F, A, V>(*arriving.index(i));
                        }
                        let to = dx_rows.row(head.row(row));
                        store(dx, &to, column, &length, own, value, tile.ends);
                    }
                    ComptimeOption::None => {}
                }
            }
        }
        first += groups * tile.rows;
    }
    if own {
        let (of_gamma, end) = head.partials(group, groups, &length);
        let of_beta = if comptime!(wanted.gamma) { end + of_gamma } else { of_gamma };
        if comptime!(wanted.gamma) {
            partials[of_gamma + column] = gamma_sum;
        }
        if comptime!(wanted.beta) {
            partials[of_beta + column] = beta_sum;
        }
    }
}

#[cube]
fn found_means<A: Float>(
    row_means: ComptimeOption<&[A]>,
    row: usize,
    rows: usize,
    #[comptime] formula: Formula,
) -> Means<A> {
    let mut found = Means::<A> { level: A::new(0.0), slope: A::new(0.0) };
    #[comptime]
    match row_means {
        ComptimeOption::Some(row_means) => {
            found.slope = row_means[row];
            if comptime!(formula.centered) {
                found.level = row_means[rows + row];
            }
        }
        ComptimeOption::None => {}
    }
    found
}
