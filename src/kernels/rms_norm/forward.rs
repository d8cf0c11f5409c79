use super::{Extent, Types};
use crate::kernels::{
    plan::{Blueprint, Hardware, Pass, address, grid},
    row::{Matrix, Rows, RunningSum, bounded, elements_sum, load, store, team_position, team_sum},
};
use cubecl::{CubeCount, CubeDim, client::Client, ir::ElemType, prelude::*, server::Handle};

/// A forward pass. `y` and `inverse_rms` are contiguous and written whole.
pub(crate) struct Forward {
    pub extent: Extent,
    pub types: Types,
    pub epsilon: f64,
    pub x: Matrix,
    pub gamma: Option<Handle>,
    pub y: Handle,
    pub inverse_rms: Option<Handle>,
}

impl Forward {
    pub(crate) fn launch(self, client: &Client) {
        let Extent { rows, columns, width } = self.extent;
        let vectors = columns / width;
        let hardware = Hardware::of(client);
        let size = self.types.x.size();
        let blueprint = Blueprint::new(Pass::Forward, vectors, width, size, hardware);
        let len = rows * columns;
        let address_type = address(len.max(self.x.len));
        let limit = client.properties().hardware.max_cube_count.0;
        let (count_x, count_y) = grid(rows.div_ceil(blueprint.teams), limit);
        let (x, x_rows) = self.x.args(width);
        // SAFETY: lengths are what the handles span; rows and columns past the end are not touched.
        unsafe {
            let buffer = |handle, len| BufferArg::from_raw_parts(handle, len);
            forward_kernel::launch_unchecked(
                client,
                CubeCount::Static(count_x, count_y, 1),
                CubeDim::new_2d(blueprint.lanes as u32, blueprint.teams as u32),
                address_type,
                width,
                x,
                self.gamma.map(|gamma| buffer(gamma, columns)).into(),
                buffer(self.y, len),
                self.inverse_rms.map(|inverse_rms| buffer(inverse_rms, rows)).into(),
                x_rows,
                rows,
                vectors,
                InputScalar::new(self.epsilon, self.types.accumulator),
                blueprint,
                self.types.x,
                self.types.gamma,
                self.types.accumulator,
            );
        }
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn forward_kernel<F: Float, G: Float, A: Float, V: Size>(
    x: &[Vector<F, V>],
    gamma: ComptimeOption<&[Vector<G, V>]>,
    y: &mut [Vector<F, V>],
    mut inverse_rms: ComptimeOption<Box<[A]>>,
    x_rows: Rows,
    rows: usize,
    vectors: usize,
    epsilon: InputScalar,
    #[comptime] blueprint: Blueprint,
    #[define(F)] _x_type: ElemType,
    #[define(G)] _gamma_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let lane = UNIT_POS_X as usize;
    let row = team_position(blueprint.teams);
    if row < rows {
        let from = x_rows.offset(row);
        let to = row * vectors;
        let chunk = comptime!(blueprint.held * blueprint.lanes);
        let mut held = Array::<Vector<F, V>>::new(blueprint.held);
        let squares = if comptime!(blueprint.chunked) {
            let mut sum = RunningSum::<A, V>::new();
            let mut start = lane;
            while start < vectors + lane {
                load(x, from, start, vectors, &mut held, blueprint);
                sum.add(sum_of_squares::<F, A, V>(&held, blueprint));
                start += chunk;
            }
            sum.total()
        } else {
            load(x, from, lane, vectors, &mut held, blueprint);
            sum_of_squares::<F, A, V>(&held, blueprint)
        };
        let width = squares.vector_size();
        let squares = team_sum::<A>(elements_sum::<A, V>(squares), 0usize, blueprint);
        let columns: usize = vectors * width;
        let columns = A::cast_from(columns);
        let r = A::recip((squares / columns + epsilon.get::<A>()).sqrt());
        #[comptime]
        match inverse_rms.as_mut() {
            ComptimeOption::Some(inverse_rms) => {
                if lane == 0 {
                    inverse_rms[row] = r;
                }
            }
            ComptimeOption::None => {}
        }
        let r = Vector::<A, V>::new(r);
        if comptime!(blueprint.chunked) {
            let mut start = lane;
            while start < vectors + lane {
                load(x, from, start, vectors, &mut held, blueprint);
                write_normalized::<F, G, A, V>(&held, gamma, y, to, start, vectors, r, blueprint);
                start += chunk;
            }
        } else {
            write_normalized::<F, G, A, V>(&held, gamma, y, to, lane, vectors, r, blueprint);
        }
    }
}

#[cube]
fn sum_of_squares<F: Float, A: Float, V: Size>(
    held: &Array<Vector<F, V>>,
    #[comptime] blueprint: Blueprint,
) -> Vector<A, V> {
    let mut sum = Vector::<A, V>::zero();
    #[unroll]
    for i in 0..blueprint.held {
        let value = Vector::<A, V>::cast_from(held[i]);
        sum += value * value;
    }
    sum
}

#[cube]
fn write_normalized<F: Float, G: Float, A: Float, V: Size>(
    held: &Array<Vector<F, V>>,
    gamma: ComptimeOption<&[Vector<G, V>]>,
    y: &mut [Vector<F, V>],
    to: usize,
    start: usize,
    vectors: usize,
    r: Vector<A, V>,
    #[comptime] blueprint: Blueprint,
) {
    #[unroll]
    for i in 0..blueprint.held {
        let column = start + i * blueprint.lanes;
        let mut value = Vector::<A, V>::cast_from(held[i]) * r;
        #[comptime]
        match gamma {
            ComptimeOption::Some(gamma) => {
                value *= Vector::<A, V>::cast_from(gamma[bounded(column, vectors, blueprint)]);
            }
            ComptimeOption::None => {}
        }
        store(y, to, column, vectors, Vector::cast_from(value), blueprint);
    }
}
