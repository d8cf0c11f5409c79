//! The second stage of a parameter gradient: partial rows added in a fixed order.

use super::{
    norm::Extent,
    plan::{ColumnPlan, Ends, address, cubes},
    row::{Length, LengthLaunch, Row, store},
    sums::RunningSum,
    team::{Fold, fold_columns},
};
use cubecl::{CubeDim, client::Client, ir::ElemType, prelude::*, server::Handle};

/// Partials that a unit loads at once.
const RUN: usize = 16;

/// Adds the `[groups, columns]` partials of each output, which follow one another in `partials`, rows in
/// whole vectors, into its `[columns]`. One or two outputs.
pub(crate) fn column_sum(
    client: &Client,
    partials: (Handle, ElemType),
    outputs: [Option<(Handle, ElemType)>; 2],
    groups: usize,
    extent: Extent,
) {
    let Extent { columns, heads, width, hardware, .. } = extent;
    let columns = heads * columns;
    let plan = ColumnPlan::new(width, hardware);
    let length = LengthLaunch::of(columns, width);
    let vectors = columns.div_ceil(width);
    let ends = Ends { exact: true, ragged: !columns.is_multiple_of(width), tight: false };
    let count = outputs.iter().flatten().count();
    let partials_len = count * groups * vectors * width;
    let mut outputs = outputs.into_iter().flatten();
    let (first, first_type) = outputs.next().expect("there is a sum to take");
    let (second, second_type) =
        outputs.next().map_or((None, first_type), |(second, dtype)| (Some(second), dtype));
    // SAFETY: the lengths are the sizes the buffers were made with; the kernel stays inside.
    unsafe {
        let buffer = |handle| BufferArg::from_raw_parts(handle, columns);
        norm_parameter_gradient_kernel::launch_unchecked(
            client,
            cubes(vectors.div_ceil(plan.columns), count, client),
            CubeDim::new_2d(plan.columns as u32, plan.splits as u32),
            address(partials_len),
            width,
            BufferArg::from_raw_parts(partials.0, partials_len),
            buffer(first),
            second.map(buffer).into(),
            groups,
            length,
            ends,
            plan,
            first_type,
            second_type,
            partials.1,
        );
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn norm_parameter_gradient_kernel<G: Numeric, B: Numeric, A: Float, V: Size>(
    partials: &[Vector<A, V>],
    first: &mut [Vector<G, V>],
    mut second: ComptimeOption<Box<[Vector<B, V>]>>,
    groups: usize,
    length: Length,
    #[comptime] ends: Ends,
    #[comptime] plan: ColumnPlan,
    #[define(G)] _first_type: ElemType,
    #[define(B)] _second_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let cube = CUBE_POS_Y as usize * CUBE_COUNT_X as usize + CUBE_POS_X as usize;
    let output = CUBE_POS_Z as usize;
    let from = output * groups * length.vectors;
    let splits = plan.splits;
    let column = cube * plan.columns + UNIT_POS_X as usize;
    let inside = column < length.vectors;
    let mut sum = RunningSum::<A, V>::new();
    if inside {
        let mut group = UNIT_POS_Y as usize;
        while group < groups {
            let mut run = Vector::<A, V>::zero();
            #[unroll]
            for i in 0..RUN {
                let next = group + i * splits;
                if next < groups {
                    run += partials[from + next * length.vectors + column];
                }
            }
            sum.add(run);
            group += comptime!(RUN * splits);
        }
    }
    let sum = fold_columns::<A, V>(sum.total(), plan.columns, splits, Fold::Sum);
    if inside && UNIT_POS_Y == 0 {
        let to = Row::only();
        store(first, &to, column, &length, output == 0, sum, ends);
        #[comptime]
        match second.as_mut() {
            ComptimeOption::Some(second) => {
                store(second, &to, column, &length, output == 1, sum, ends);
            }
            ComptimeOption::None => {}
        }
    }
}
