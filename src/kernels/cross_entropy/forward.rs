use super::{Extent, Form, Options, Types, element, target, weight};
use crate::kernels::{
    matrix::Matrix,
    plan::{Blueprint, Pass, address, cubes},
    row::{Length, LengthLaunch, Row, Rows, inside_or, load_any, read_any},
    softmax::{
        exponentials::{self, RowExponentials},
        totals::{add, finished},
    },
    stored::widened,
    sums::{RunningSum, elements_sum},
    team::{Team, lane, team_position},
};
use cubecl::{client::Client, ir::ElemType, prelude::*, server::Handle};

/// A forward pass. Outputs are contiguous and written whole.
pub(crate) struct Forward {
    pub extent: Extent,
    pub types: Types,
    pub options: Options,
    pub logits: Matrix,
    pub targets: Handle,
    pub weights: Option<Handle>,
    /// `[rows]`
    pub losses: Handle,
    /// `[3, rows]`
    pub saved: Option<Handle>,
}

impl Forward {
    pub(crate) fn launch(self, client: &Client) {
        let Extent { rows, columns, width, hardware } = self.extent;
        let Types { logits: logits_type, targets: targets_type, .. } = self.types;
        let Types { weights: weights_type, accumulator, .. } = self.types;
        let blueprint = self.extent.blueprint(Pass::Forward, logits_type.size());
        log::trace!("CrossEntropy: {rows}×{columns}, {:?}, {blueprint:?}", self.types);
        let form = Form::new(self.options, self.types);
        let saved = super::SAVED * rows;
        let (logits, logits_rows) = self.logits.clone().args(width);
        // Sums of distances over a row would be past the range where their mean is not.
        let scale = 1.0 / columns.next_power_of_two() as f64;
        // SAFETY: lengths are what the handles span; columns past the end are read as the
        // last ones, and rows as the last.
        unsafe {
            let buffer = |handle, len| BufferArg::from_raw_parts(handle, len);
            cross_entropy_kernel::launch_unchecked(
                client,
                cubes(blueprint.cubes(rows, hardware), 1, client),
                blueprint.cube_dim(),
                address(self.logits.len.max(saved)),
                width,
                logits,
                buffer(self.targets, rows),
                self.weights.map(|weights| buffer(weights, columns)).into(),
                buffer(self.losses, rows),
                self.saved.map(|handle| buffer(handle, saved)).into(),
                logits_rows,
                rows,
                LengthLaunch::of(columns, width),
                InputScalar::new(self.options.ignored.unwrap_or(0), targets_type),
                InputScalar::new(self.options.smoothing, accumulator),
                InputScalar::new(scale, accumulator),
                InputScalar::new(self.options.smoothing / (columns as f64 * scale), accumulator),
                InputScalar::new(f64::NAN, accumulator),
                form,
                blueprint,
                logits_type,
                targets_type,
                weights_type,
                accumulator,
            );
        }
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn cross_entropy_kernel<F: Numeric, I: Int, W: Numeric, A: Float, V: Size>(
    logits: &[Vector<F, V>],
    targets: &[I],
    weights: ComptimeOption<&[Vector<W, V>]>,
    losses: &mut [A],
    mut saved: ComptimeOption<Box<[A]>>,
    logits_rows: Rows,
    rows: usize,
    length: Length,
    ignored: InputScalar,
    smoothing: InputScalar,
    scale: InputScalar,
    scaled_share: InputScalar,
    not_a_number: InputScalar,
    #[comptime] form: Form,
    #[comptime] blueprint: Blueprint,
    #[define(F)] _logits_type: ElemType,
    #[define(I)] _targets_type: ElemType,
    #[define(W)] _weights_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let ends = blueprint.ends;
    let lane = lane(blueprint);
    let row = team_position(blueprint);
    // Every unit takes part where others wait for it.
    let own = row < rows;
    let row = usize::min(row, rows - 1);
    let from = logits_rows.row(row);
    let mut team = Team::<A>::new(!form.narrow, blueprint);
    let chunk = comptime!(blueprint.held * blueprint.lanes);
    let mut held = Array::<Vector<F, V>>::new(blueprint.held);
    let mut exponentials = RowExponentials::<A>::new();
    let target = target::<I>(targets, row, &ignored, &length, form);
    let weight = weight::<W, A, V>(weights, &target, &length, ends);
    let logit = element::<F, A, V>(logits, &from, target.column, &length, ends);
    // What distances of all logits are taken from, as they may be far from zero.
    let near = select(logit.abs() <= A::max_value(), logit, A::new(0.0));
    // A power of two, by which nothing is rounded.
    let scale = scale.get::<A>();
    let mut distances = RunningSum::<A, V>::new();
    let mut all_weights = RunningSum::<A, V>::new();
    let mut start = lane;
    while start < length.vectors + lane {
        load_any(logits, &from, start, &length, &mut held, 0usize, blueprint);
        if comptime!(form.smooths) {
            let (part, part_weights) =
                smoothed::<F, W, A, V>(&held, weights, near, scale, start, &length, blueprint);
            distances.add(part);
            all_weights.add(part_weights);
        }
        add::<F, A, V>(&mut exponentials, &mut held, start, &length, blueprint);
        start += chunk;
    }
    let of_log = comptime!(exponentials::Form { log: true, narrow: form.narrow });
    let (largest, log_total) = finished::<A, V>(&exponentials, &mut team, of_log);
    let (largest, log_total) = (largest.extract(0usize), log_total.extract(0usize));

    let mut mass = weight;
    let mut loss = weight * ((largest - logit) + log_total);
    if comptime!(form.smooths) {
        let smoothing = smoothing.get::<A>();
        let (distances, all_weights) = team.sum_both(
            elements_sum::<A, V>(distances.total()),
            elements_sum::<A, V>(all_weights.total()),
        );
        let share = scaled_share.get::<A>();
        let spread = ((largest - near) + log_total) * all_weights - distances;
        loss = (A::new(1.0) - smoothing) * loss + share * spread;
        mass = (A::new(1.0) - smoothing) * weight + share * all_weights;
    }
    if own && lane == 0 {
        // Where there is no such class: as there is no one to tell. It comes as an argument because WGSL has no
        // such constant, and compilers take 0 / 0 to be 0.
        let not_a_number = not_a_number.get::<A>();
        loss = select(target.exists, loss, not_a_number);
        losses[row] = select(target.ignored, A::new(0.0), loss);
        #[comptime]
        match saved.as_mut() {
            ComptimeOption::Some(saved) => {
                saved[row] = largest;
                saved[rows + row] = log_total;
                saved[2 * rows + row] = select(target.exists, mass, not_a_number);
            }
            ComptimeOption::None => {}
        }
    }
}

/// The sum of the weighted distances of what is held from `near`, and that of the weights, each times `scale`.
#[cube]
fn smoothed<F: Numeric, W: Numeric, A: Float, V: Size>(
    held: &Array<Vector<F, V>>,
    weights: ComptimeOption<&[Vector<W, V>]>,
    near: A,
    scale: A,
    start: usize,
    length: &Length,
    #[comptime] blueprint: Blueprint,
) -> (Vector<A, V>, Vector<A, V>) {
    let mut distances = Vector::<A, V>::zero();
    let mut all = Vector::<A, V>::zero();
    #[unroll]
    for i in 0..blueprint.held {
        let ends = comptime!(blueprint.ends_of(i));
        let column = start + i * blueprint.lanes;
        let mut weight = Vector::<A, V>::new(scale);
        #[comptime]
        match weights {
            ComptimeOption::Some(weights) => {
                let weights = read_any(weights, &Row::only(), column, length, ends);
                weight *= widened::<W, A, V>(weights);
            }
            ComptimeOption::None => {}
        }
        let distance = widened::<F, A, V>(held[i]) - Vector::new(near);
        distances += inside_or(distance * weight, A::new(0.0), column, length, ends);
        all += inside_or(weight, A::new(0.0), column, length, ends);
    }
    (distances, all)
}
