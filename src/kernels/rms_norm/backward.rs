use super::{Extent, Types};
use crate::kernels::{
    column_sum::column_sum,
    plan::{Blueprint, Hardware, Pass, address, grid, groups},
    row::{Matrix, Rows, RunningSum, bounded, elements_sum, load, store, team_position, team_sum},
};
use cubecl::{CubeCount, CubeDim, client::Client, ir::ElemType, prelude::*, server::Handle};

/// A backward pass. `dx` is contiguous and written whole.
pub(crate) struct Backward {
    pub extent: Extent,
    pub types: Types,
    pub x: Matrix,
    pub gamma: Option<Handle>,
    pub inverse_rms: Handle,
    pub dy: Matrix,
    pub dx: Option<Handle>,
    pub dgamma: Option<Handle>,
}

impl Backward {
    pub(crate) fn launch(self, client: &Client) {
        let Extent { rows, columns, width } = self.extent;
        let vectors = columns / width;
        let hardware = Hardware::of(client);
        let size = self.types.x.size();
        let blueprint = Blueprint::new(Pass::Backward, vectors, width, size, hardware);
        // Without a sum over rows each row is a group of its own.
        let groups = match self.dgamma {
            Some(_) => groups(rows, columns, size),
            None => rows,
        };
        let partials = self
            .dgamma
            .is_some()
            .then(|| client.empty(groups * columns * self.types.accumulator.size()));
        let len = rows * columns;
        let address_type = address(len.max(self.x.len).max(self.dy.len));
        let limit = client.properties().hardware.max_cube_count.0;
        let (count_x, count_y) = grid(groups.div_ceil(blueprint.teams), limit);
        let (x, x_rows) = self.x.args(width);
        let (dy, dy_rows) = self.dy.args(width);
        // SAFETY: lengths are what the handles span; rows and columns past the end are not touched.
        unsafe {
            let buffer = |handle, len| BufferArg::from_raw_parts(handle, len);
            backward_kernel::launch_unchecked(
                client,
                CubeCount::Static(count_x, count_y, 1),
                CubeDim::new_2d(blueprint.lanes as u32, blueprint.teams as u32),
                address_type,
                width,
                x,
                self.gamma.map(|gamma| buffer(gamma, columns)).into(),
                buffer(self.inverse_rms, rows),
                dy,
                self.dx.map(|dx| buffer(dx, len)).into(),
                partials.clone().map(|partials| buffer(partials, groups * columns)).into(),
                x_rows,
                dy_rows,
                rows,
                vectors,
                groups,
                blueprint,
                self.types.x,
                self.types.gamma,
                self.types.accumulator,
            );
        }
        if let (Some(partials), Some(dgamma)) = (partials, self.dgamma) {
            let partials = (partials, self.types.accumulator);
            column_sum(client, partials, (dgamma, self.types.gamma), groups, columns, width);
        }
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn backward_kernel<F: Float, G: Float, A: Float, V: Size>(
    x: &[Vector<F, V>],
    gamma: ComptimeOption<&[Vector<G, V>]>,
    inverse_rms: &[A],
    dy: &[Vector<F, V>],
    dx: ComptimeOption<Box<[Vector<F, V>]>>,
    partials: ComptimeOption<Box<[Vector<A, V>]>>,
    x_rows: Rows,
    dy_rows: Rows,
    rows: usize,
    vectors: usize,
    groups: usize,
    #[comptime] blueprint: Blueprint,
    #[define(F)] _x_type: ElemType,
    #[define(G)] _gamma_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let group = team_position(blueprint.teams);
    if group < groups {
        if comptime!(blueprint.chunked) {
            backward_chunked::<F, G, A, V>(
                x,
                gamma,
                inverse_rms,
                dy,
                dx,
                partials,
                &x_rows,
                &dy_rows,
                rows,
                vectors,
                group,
                groups,
                blueprint,
            );
        } else {
            backward_held::<F, G, A, V>(
                x,
                gamma,
                inverse_rms,
                dy,
                dx,
                partials,
                &x_rows,
                &dy_rows,
                rows,
                vectors,
                group,
                groups,
                blueprint,
            );
        }
    }
}

/// A group of rows, each held in registers while it is worked on; so is the group's sum.
#[cube]
fn backward_held<F: Float, G: Float, A: Float, V: Size>(
    x: &[Vector<F, V>],
    gamma: ComptimeOption<&[Vector<G, V>]>,
    inverse_rms: &[A],
    dy: &[Vector<F, V>],
    mut dx: ComptimeOption<Box<[Vector<F, V>]>>,
    mut partials: ComptimeOption<Box<[Vector<A, V>]>>,
    x_rows: &Rows,
    dy_rows: &Rows,
    rows: usize,
    vectors: usize,
    group: usize,
    groups: usize,
    #[comptime] blueprint: Blueprint,
) {
    let lane = UNIT_POS_X as usize;
    let held = blueprint.held;
    let mut xs = Array::<Vector<F, V>>::new(held);
    let mut dys = Array::<Vector<F, V>>::new(held);
    let mut next_xs = Array::<Vector<F, V>>::new(held);
    let mut next_dys = Array::<Vector<F, V>>::new(held);
    let mut gammas = Array::<Vector<G, V>>::new(held);
    let mut sums = Array::<Vector<A, V>>::new(held);
    #[unroll]
    for i in 0..held {
        sums[i] = Vector::zero();
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
    let mut phase = 0usize;
    let mut row = group;
    while row < rows {
        if comptime!(blueprint.prefetch) {
            #[unroll]
            for i in 0..held {
                xs[i] = next_xs[i];
                dys[i] = next_dys[i];
            }
            // Issued before this row's barrier, so that reading goes on while units wait.
            let next = usize::min(row + groups, rows - 1);
            load(x, x_rows.offset(next), lane, vectors, &mut next_xs, blueprint);
            load(dy, dy_rows.offset(next), lane, vectors, &mut next_dys, blueprint);
        } else {
            load(x, x_rows.offset(row), lane, vectors, &mut xs, blueprint);
            load(dy, dy_rows.offset(row), lane, vectors, &mut dys, blueprint);
        }
        let r = Vector::<A, V>::new(inverse_rms[row]);
        let mut dot = Vector::<A, V>::zero();
        #[unroll]
        for i in 0..held {
            let product =
                Vector::<A, V>::cast_from(dys[i]) * (Vector::<A, V>::cast_from(xs[i]) * r);
            sums[i] += product;
            if comptime!(scaled) {
                dot += product * Vector::<A, V>::cast_from(gammas[i]);
            } else {
                dot += product;
            }
        }
        #[comptime]
        match dx.as_mut() {
            ComptimeOption::Some(dx) => {
                let columns: usize = vectors * dot.vector_size();
                let columns = A::cast_from(columns);
                let mean = team_sum::<A>(elements_sum::<A, V>(dot), phase, blueprint) / columns;
                #[unroll]
                for i in 0..held {
                    let mut dy = Vector::<A, V>::cast_from(dys[i]);
                    if comptime!(scaled) {
                        dy *= Vector::<A, V>::cast_from(gammas[i]);
                    }
                    let dx_i = input_gradient::<F, A, V>(xs[i], dy, r, mean);
                    let column = lane + i * blueprint.lanes;
                    store(dx, row * vectors, column, vectors, dx_i, blueprint);
                }
            }
            ComptimeOption::None => {}
        }
        phase = 1 - phase;
        row += groups;
    }
    #[comptime]
    match partials.as_mut() {
        ComptimeOption::Some(partials) =>
        {
            #[unroll]
            for i in 0..held {
                let column = lane + i * blueprint.lanes;
                store(partials, group * vectors, column, vectors, sums[i], blueprint);
            }
        }
        ComptimeOption::None => {}
    }
}

/// A group of rows, each read twice in chunks; the group's sum lies in memory, where a unit meets
/// its own columns only.
#[cube]
fn backward_chunked<F: Float, G: Float, A: Float, V: Size>(
    x: &[Vector<F, V>],
    gamma: ComptimeOption<&[Vector<G, V>]>,
    inverse_rms: &[A],
    dy: &[Vector<F, V>],
    mut dx: ComptimeOption<Box<[Vector<F, V>]>>,
    mut partials: ComptimeOption<Box<[Vector<A, V>]>>,
    x_rows: &Rows,
    dy_rows: &Rows,
    rows: usize,
    vectors: usize,
    group: usize,
    groups: usize,
    #[comptime] blueprint: Blueprint,
) {
    let lane = UNIT_POS_X as usize;
    let held = blueprint.held;
    let chunk = comptime!(held * blueprint.lanes);
    let mut xs = Array::<Vector<F, V>>::new(held);
    let mut dys = Array::<Vector<F, V>>::new(held);
    let mut gammas = Array::<Vector<G, V>>::new(held);
    let scaled = comptime!(gamma.is_some());
    let mut phase = 0usize;
    let mut row = group;
    while row < rows {
        let from_x = x_rows.offset(row);
        let from_dy = dy_rows.offset(row);
        let r = Vector::<A, V>::new(inverse_rms[row]);
        let mut dot = RunningSum::<A, V>::new();
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
            let mut part = Vector::<A, V>::zero();
            #[unroll]
            for i in 0..held {
                let product =
                    Vector::<A, V>::cast_from(dys[i]) * (Vector::<A, V>::cast_from(xs[i]) * r);
                #[comptime]
                match partials.as_mut() {
                    ComptimeOption::Some(partials) => {
                        let column = start + i * blueprint.lanes;
                        if column < vectors {
                            if row == group {
                                partials[group * vectors + column] = product;
                            } else {
                                partials[group * vectors + column] += product;
                            }
                        }
                    }
                    ComptimeOption::None => {}
                }
                if comptime!(scaled) {
                    part += product * Vector::<A, V>::cast_from(gammas[i]);
                } else {
                    part += product;
                }
            }
            dot.add(part);
            start += chunk;
        }
        let dot = dot.total();
        #[comptime]
        match dx.as_mut() {
            ComptimeOption::Some(dx) => {
                let columns: usize = vectors * dot.vector_size();
                let columns = A::cast_from(columns);
                let mean = team_sum::<A>(elements_sum::<A, V>(dot), phase, blueprint) / columns;
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
                        let dx_i = input_gradient::<F, A, V>(xs[i], dy, r, mean);
                        store(dx, row * vectors, column, vectors, dx_i, blueprint);
                    }
                    start += chunk;
                }
            }
            ComptimeOption::None => {}
        }
        phase = 1 - phase;
        row += groups;
    }
}

/// `r·(dy − x̂·mean)`, where `dy` is already scaled by gamma.
#[cube]
fn input_gradient<F: Float, A: Float, V: Size>(
    x: Vector<F, V>,
    dy: Vector<A, V>,
    r: Vector<A, V>,
    mean: A,
) -> Vector<F, V> {
    let normalized = Vector::<A, V>::cast_from(x) * r;
    Vector::cast_from((dy - normalized * Vector::new(mean)) * r)
}
