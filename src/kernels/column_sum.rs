//! The second stage of a parameter gradient: partial rows added in a fixed order.

use super::plan::{ColumnPlan, Hardware, grid};
use cubecl::{CubeCount, CubeDim, client::Client, ir::ElemType, prelude::*, server::Handle};

/// Partials that a unit adds up before it adds them to its sum, so that the error grows with the
/// root of a number's root.
const RUN: usize = 16;

/// Adds the `[groups, columns]` partials in `partials` into the `[columns]` of `output`.
pub(crate) fn column_sum(
    client: &Client,
    partials: (Handle, ElemType),
    output: (Handle, ElemType),
    groups: usize,
    columns: usize,
    width: usize,
) {
    let hardware = Hardware::of(client);
    let plan = ColumnPlan::new(hardware);
    let vectors = columns / width;
    let limit = client.properties().hardware.max_cube_count.0;
    let (x, y) = grid(vectors.div_ceil(plan.columns), limit);
    let partials_len = groups * columns;
    // SAFETY: the lengths are the sizes the buffers were made with; the kernel stays inside.
    unsafe {
        column_sum_kernel::launch_unchecked(
            client,
            CubeCount::Static(x, y, 1),
            CubeDim::new_2d(plan.columns as u32, plan.splits as u32),
            AddressType::from_len(partials_len),
            width,
            BufferArg::from_raw_parts(partials.0, partials_len),
            BufferArg::from_raw_parts(output.0, columns),
            groups,
            vectors,
            plan,
            output.1,
            partials.1,
        );
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn column_sum_kernel<G: Float, A: Float, V: Size>(
    partials: &[Vector<A, V>],
    output: &mut [Vector<G, V>],
    groups: usize,
    vectors: usize,
    #[comptime] plan: ColumnPlan,
    #[define(G)] _output_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let splits = plan.splits;
    let column = CUBE_POS * plan.columns + UNIT_POS_X as usize;
    let inside = column < vectors;
    let mut sum = Vector::<A, V>::zero();
    if inside {
        let mut group = UNIT_POS_Y as usize;
        while group < groups {
            let mut run = Vector::<A, V>::zero();
            #[unroll]
            for i in 0..RUN {
                let next = group + i * splits;
                if next < groups {
                    run += partials[next * vectors + column];
                }
            }
            sum += run;
            group += comptime!(RUN * splits);
        }
    }
    if comptime!(splits > 1) {
        let mut scratch = Shared::<[Vector<A, V>]>::new_slice(comptime!(splits * plan.columns));
        scratch[UNIT_POS_Y as usize * plan.columns + UNIT_POS_X as usize] = sum;
        sync_cube();
        if UNIT_POS_Y == 0 {
            #[unroll]
            for i in 1..splits {
                sum += scratch[i * plan.columns + UNIT_POS_X as usize];
            }
        }
    }
    if inside && UNIT_POS_Y == 0 {
        output[column] = Vector::cast_from(sum);
    }
}
