mod chunked;
mod held;

use super::{
    Extent, Types,
    statistics::{Formula, Statistics},
};
use crate::kernels::{
    column_sum::column_sum,
    plan::{Blueprint, Hardware, Pass, address, cubes, groups},
    row::{Matrix, Rows, Target},
    team::{Team, elements_sum, team_position},
};
use chunked::backward_chunked;
use cubecl::{CubeDim, client::Client, ir::ElemType, prelude::*, server::Handle};
use held::backward_held;

/// A backward pass. Gradients are contiguous and written whole.
pub(crate) struct Backward {
    pub extent: Extent,
    pub types: Types,
    /// Whether the mean is subtracted: LayerNorm.
    pub centered: bool,
    pub dy: Matrix,
    pub x: Matrix,
    pub gamma: Option<Handle>,
    pub statistics: Handle,
    pub dx: Option<Target>,
    pub dgamma: Option<Handle>,
    pub dbeta: Option<Handle>,
}

/// Which gradients of parameters are computed. Compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Wanted {
    gamma: bool,
    beta: bool,
}

impl Backward {
    pub(crate) fn launch(self, client: &Client) {
        let Extent { rows, columns, width } = self.extent;
        let Types { x: x_type, gamma: gamma_type, beta: beta_type, accumulator } = self.types;
        let vectors = columns / width;
        let hardware = Hardware::of(client);
        let size = x_type.size();
        let blueprint = Blueprint::new(Pass::Backward, vectors, width, size, hardware);
        let formula = Formula::new(self.centered, self.types);
        let wanted = Wanted { gamma: self.dgamma.is_some(), beta: self.dbeta.is_some() };
        let sums = usize::from(wanted.gamma) + usize::from(wanted.beta);
        // Without a sum over rows each row is a group of its own.
        let groups = if sums > 0 { groups(rows, columns, size) } else { rows };
        let partials_len = sums * groups * columns;
        let partials = (sums > 0).then(|| client.empty(partials_len * accumulator.size()));
        let len = rows * columns;
        let saved = formula.saved(rows);
        let inputs = self.x.len.max(self.dy.len);
        let address_type = address(len.max(inputs).max(saved).max(partials_len));
        let (dy, dy_rows) = self.dy.args(width);
        let (x, x_rows) = self.x.args(width);
        // SAFETY: lengths are what the handles span; rows and columns past the end are not touched.
        // Where `dx` is `dy`, a unit writes what only it has use for, and has read; what others read
        // of that they discard.
        unsafe {
            let buffer = |handle, len| BufferArg::from_raw_parts(handle, len);
            backward_kernel::launch_unchecked(
                client,
                cubes(groups.div_ceil(blueprint.teams), 1, client),
                CubeDim::new_2d(blueprint.lanes as u32, blueprint.teams as u32),
                address_type,
                width,
                dy,
                x,
                self.gamma.map(|gamma| buffer(gamma, columns)).into(),
                buffer(self.statistics, saved),
                self.dx.map(|dx| dx.arg(len)).into(),
                partials.clone().map(|partials| buffer(partials, partials_len)).into(),
                dy_rows,
                x_rows,
                rows,
                vectors,
                groups,
                formula,
                wanted,
                blueprint,
                x_type,
                gamma_type,
                accumulator,
            );
        }
        if let Some(partials) = partials {
            let gamma = self.dgamma.map(|dgamma| (dgamma, gamma_type));
            let beta = self.dbeta.map(|dbeta| (dbeta, beta_type));
            let partials = (partials, accumulator);
            column_sum(client, partials, [gamma, beta], groups, columns, width);
        }
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn backward_kernel<F: Float, G: Float, A: Float, V: Size>(
    dy: &[Vector<F, V>],
    x: &[Vector<F, V>],
    gamma: ComptimeOption<&[Vector<G, V>]>,
    saved: &[A],
    dx: ComptimeOption<Box<[Vector<F, V>]>>,
    partials: ComptimeOption<Box<[Vector<A, V>]>>,
    dy_rows: Rows,
    x_rows: Rows,
    rows: usize,
    vectors: usize,
    groups: usize,
    #[comptime] formula: Formula,
    #[comptime] wanted: Wanted,
    #[comptime] blueprint: Blueprint,
    #[define(F)] _x_type: ElemType,
    #[define(G)] _gamma_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let group = team_position(blueprint.teams);
    if group < groups {
        if comptime!(blueprint.chunked) {
            backward_chunked::<F, G, A, V>(
                dy, x, gamma, saved, dx, partials, &dy_rows, &x_rows, rows, vectors, group, groups,
                formula, wanted, blueprint,
            );
        } else {
            backward_held::<F, G, A, V>(
                dy, x, gamma, saved, dx, partials, &dy_rows, &x_rows, rows, vectors, group, groups,
                formula, wanted, blueprint,
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
    vectors: usize,
    team: &mut Team<A>,
    #[comptime] formula: Formula,
) -> Means<A> {
    let columns: usize = vectors * level.vector_size();
    let columns = A::cast_from(columns);
    let slope = elements_sum::<A, V>(slope);
    if comptime!(formula.centered) {
        let (level, slope) = team.sum_both(elements_sum::<A, V>(level), slope);
        Means::<A> { level: level / columns, slope: slope / columns }
    } else {
        Means::<A> { level: A::new(0.0), slope: team.sum(slope) / columns }
    }
}

/// `r·(dŷ − level − x̂·slope)`, with as few roundings of its largest term as there can be.
#[cube]
fn input_gradient<F: Float, A: Float, V: Size>(
    normalized: Vector<A, V>,
    dy: Vector<A, V>,
    inverse_root: A,
    means: &Means<A>,
    #[comptime] formula: Formula,
) -> Vector<F, V> {
    let slope = Vector::new(means.slope * inverse_root);
    let taken = if comptime!(formula.centered) {
        fma(normalized, slope, Vector::new(means.level * inverse_root))
    } else {
        normalized * slope
    };
    Vector::cast_from(fma(dy, Vector::new(inverse_root), -taken))
}
