mod chunked;
mod held;
mod tiled;

use super::{
    Extent, Types,
    head::Head,
    op,
    statistics::{Formula, Statistics},
};
use crate::kernels::{
    column_sum::column_sum,
    matrix::{Matrix, Output},
    plan::{Blueprint, Pass, address, cubes, groups},
    row::{EvenRows, EvenRowsLaunch, Length, Rows},
    sums::{Count, elements_sum},
    team::{Team, team_position},
};
use chunked::backward_chunked;
use cubecl::{client::Client, ir::ElemType, prelude::*, server::Handle};
use held::backward_held;

/// Positions among the kernels' buffers of those that `dx` can be written over.
pub(crate) const DY: usize = 0;
pub(crate) const ELSEWHERE: usize = 2;

/// A backward pass. Gradients of parameters are contiguous and written whole.
pub(crate) struct Backward {
    pub extent: Extent,
    pub types: Types,
    /// Whether the mean is subtracted: LayerNorm.
    pub centered: bool,
    /// Whether gamma is kept less 1.
    pub zero_centered_gamma: bool,
    pub dy: Matrix,
    pub x: Matrix,
    /// A gradient that reaches x from elsewhere, and is a part of `dx`.
    pub elsewhere: Option<Matrix>,
    pub gamma: Option<Handle>,
    pub statistics: Handle,
    pub dx: Option<Output>,
    pub dgamma: Option<Handle>,
    pub dbeta: Option<Handle>,
}

/// Which gradients of parameters are computed. Compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Wanted {
    gamma: bool,
    beta: bool,
}

/// How a pass is cut up and compiled.
#[derive(Clone, Copy)]
struct Work {
    /// Groups of rows, each with a partial sum.
    groups: usize,
    formula: Formula,
    wanted: Wanted,
    blueprint: Blueprint,
    address_type: AddressType,
}

impl Backward {
    pub(crate) fn launch(self, client: &Client) {
        let Extent { rows, columns, heads, width, hardware } = self.extent;
        let extent = self.extent;
        let Types { x: x_type, y: y_type, gamma: gamma_type, beta: beta_type, accumulator } =
            self.types;
        let length = self.extent.length();
        let size = x_type.size();
        let blueprint =
            Blueprint::new(op(self.centered), Pass::Backward, columns, width, size, hardware);
        let blueprint = match self.elsewhere {
            Some(_) => blueprint.of_sum(width, size),
            None => blueprint,
        };
        let of = op(self.centered);
        log::trace!("{of:?} backward: {rows}×{columns}, {:?}, {blueprint:?}", self.types);
        let formula = Formula::new(self.centered, self.zero_centered_gamma, x_type, accumulator);
        let wanted = Wanted { gamma: self.dgamma.is_some(), beta: self.dbeta.is_some() };
        let sums = usize::from(wanted.gamma) + usize::from(wanted.beta);
        // Teams that hold their sums add them up in their cube.
        let (meeting, apart) =
            if blueprint.chunked { (1, blueprint.teams) } else { (blueprint.teams, 1) };
        // Without a sum over rows each row is a team's of its own.
        let rows_of_head = rows / heads;
        let groups = match sums {
            0 => rows_of_head.div_ceil(meeting),
            _ => groups(rows_of_head, columns, heads, size, meeting, !blueprint.chunked),
        };
        let partials_len = sums * groups * heads * columns.next_multiple_of(width);
        let partials = (sums > 0).then(|| client.empty(partials_len * accumulator.size()));
        let len = self.dx.as_ref().map_or(0, |dx| dx.len(rows));
        let saved = formula.saved(rows);
        let elsewhere = self.elsewhere.as_ref().map_or(0, |matrix| matrix.len);
        let inputs = self.x.len.max(self.dy.len).max(elsewhere);
        // Row numbers pass the end by a stride, which there are fewer of than rows.
        let counts = saved.max(2 * rows).max(partials_len);
        let address_type = address(len.max(inputs).max(counts));
        let (dgamma, dbeta) = (self.dgamma.clone(), self.dbeta.clone());
        match &partials {
            Some(partials) if blueprint.chunked && hardware.plane > 1 => {
                let partials = (partials.clone(), partials_len);
                let work = Work { groups, formula, wanted, blueprint, address_type };
                tiled::launch(self, partials, work, client);
            }
            _ => {
                let (dy, dy_rows) = self.dy.args(width);
                let (x, x_rows) = self.x.args(width);
                let elsewhere = self.elsewhere.map(|matrix| matrix.args(width));
                let (elsewhere, elsewhere_rows) = elsewhere.unzip();
                let (dx, dx_rows) = args(self.dx, rows, width);
                // SAFETY: lengths are what the handles span; rows and columns past the end are not
                // written, and read as the last ones. Where `dx` is `dy` or `elsewhere`, a unit writes what only it
                // has use for, and has read; what others read of that they discard.
                unsafe {
                    let buffer = |handle, len| BufferArg::from_raw_parts(handle, len);
                    norm_backward_kernel::launch_unchecked(
                        client,
                        cubes((groups * heads).div_ceil(apart), 1, client),
                        blueprint.cube_dim(),
                        address_type,
                        width,
                        dy,
                        x,
                        elsewhere.into(),
                        self.gamma.map(|gamma| buffer(gamma, heads * columns)).into(),
                        buffer(self.statistics, saved),
                        dx.into(),
                        partials.clone().map(|partials| buffer(partials, partials_len)).into(),
                        dy_rows,
                        x_rows,
                        elsewhere_rows.into(),
                        dx_rows,
                        extent.heads().into(),
                        rows_of_head,
                        length,
                        groups,
                        formula,
                        wanted,
                        blueprint,
                        x_type,
                        y_type,
                        gamma_type,
                        accumulator,
                    );
                }
            }
        }
        if let Some(partials) = partials {
            let gamma = dgamma.map(|dgamma| (dgamma, gamma_type));
            let beta = dbeta.map(|dbeta| (dbeta, beta_type));
            let partials = (partials, accumulator);
            column_sum(client, partials, [gamma, beta], groups, extent);
        }
    }
}

/// The kernel's arguments for `dx`, if it is wanted.
fn args(dx: Option<Output>, rows: usize, width: usize) -> (Option<BufferArg>, EvenRowsLaunch) {
    match dx.map(|dx| dx.args(rows, width)) {
        Some((buffer, rows)) => (Some(buffer), rows),
        None => (None, EvenRowsLaunch::new(0, true)),
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn norm_backward_kernel<F: Numeric, Y: Numeric, G: Numeric, A: Float, V: Size>(
    dy: &[Vector<Y, V>],
    x: &[Vector<F, V>],
    elsewhere: ComptimeOption<&[Vector<F, V>]>,
    gamma: ComptimeOption<&[Vector<G, V>]>,
    saved: &[A],
    dx: ComptimeOption<Box<[Vector<F, V>]>>,
    partials: ComptimeOption<Box<[Vector<A, V>]>>,
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
    #[comptime] blueprint: Blueprint,
    #[define(F)] _x_type: ElemType,
    #[define(Y)] _y_type: ElemType,
    #[define(G)] _gamma_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    if comptime!(blueprint.chunked) {
        let place = team_position(blueprint);
        let (head, group) = Head::of_group(place, groups, heads);
        if place < head.all(groups) {
            backward_chunked::<F, Y, G, A, V>(
                dy,
                x,
                elsewhere,
                gamma,
                saved,
                dx,
                partials,
                &dy_rows,
                &x_rows,
                &elsewhere_rows,
                &dx_rows,
                &head,
                rows,
                &length,
                group,
                groups,
                formula,
                wanted,
                blueprint,
            );
        }
    } else {
        let place = CUBE_POS;
        let (head, group) = Head::of_group(place, groups, heads);
        if place < head.all(groups) {
            backward_held::<F, Y, G, A, V>(
                dy,
                x,
                elsewhere,
                gamma,
                saved,
                dx,
                partials,
                &dy_rows,
                &x_rows,
                &elsewhere_rows,
                &dx_rows,
                &head,
                rows,
                &length,
                group,
                groups,
                formula,
                wanted,
                blueprint,
            );
        }
    }
}

/// The statistics that the forward pass saved for a row.
#[cube]
fn saved_statistics<A: Float>(
    saved: &[A],
    row: usize,
    rows: usize,
    #[comptime] formula: Formula,
) -> Statistics<A> {
    let inverse_root = saved[row];
    if comptime!(formula.centered) {
        let (near, rest) = (saved[rows + row], saved[2 * rows + row]);
        Statistics::<A> { inverse_root, near, rest }
    } else {
        Statistics::<A> { inverse_root, near: A::new(0.0), rest: A::new(0.0) }
    }
}

/// The means of `dŷ` and of `dŷ·x̂` over a row.
#[derive(CubeType)]
struct Means<A: Float> {
    level: A,
    slope: A,
}

/// The row's means, of the units' sums.
#[cube]
fn means<A: Float, V: Size>(
    level: Vector<A, V>,
    slope: Vector<A, V>,
    columns: &Count<A>,
    team: &mut Team<A>,
    #[comptime] formula: Formula,
) -> Means<A> {
    let slope = elements_sum::<A, V>(slope);
    if comptime!(formula.centered) {
        let (level, slope) = team.sum_both(elements_sum::<A, V>(level), slope);
        Means::<A> { level: columns.mean(level), slope: columns.mean(slope) }
    } else {
        Means::<A> { level: A::new(0.0), slope: columns.mean(team.sum(slope)) }
    }
}

/// `r·(dŷ − level − x̂·slope)`, with as few roundings of its largest term as there can be.
#[cube]
fn input_gradient<A: Float, V: Size>(
    normalized: Vector<A, V>,
    dy: Vector<A, V>,
    inverse_root: A,
    means: &Means<A>,
    #[comptime] formula: Formula,
) -> Vector<A, V> {
    let slope = Vector::new(means.slope * inverse_root);
    let taken = if comptime!(formula.centered) {
        fma(normalized, slope, Vector::new(means.level * inverse_root))
    } else {
        normalized * slope
    };
    fma(dy, Vector::new(inverse_root), -taken)
}
