use super::{Extent, Form, Options, SAVED, Types, target, weight};
use crate::kernels::{
    matrix::{Matrix, Output},
    plan::{Blueprint, Ends, Pass, address, cubes},
    row::{EvenRows, Length, LengthLaunch, Row, Rows, load_any, read_any, store},
    softmax::exponentials::exp,
    stored::widened,
    sums::Count,
    team::{lane, team_position},
};
use cubecl::{client::Client, ir::ElemType, prelude::*, server::Handle};

/// The position among the kernel's buffers of that which the gradient can be written over.
pub(crate) const LOGITS: usize = 0;

/// A backward pass.
pub(crate) struct Backward {
    pub extent: Extent,
    pub types: Types,
    pub options: Options,
    pub logits: Matrix,
    pub targets: Handle,
    pub weights: Option<Handle>,
    /// What the forward pass saved.
    pub saved: Handle,
    /// The losses' gradients, `[rows]` in the accumulator.
    pub grad: Handle,
    pub dlogits: Output,
}

impl Backward {
    pub(crate) fn launch(self, client: &Client) {
        let Extent { rows, columns, width, hardware } = self.extent;
        let Types { logits: logits_type, targets: targets_type, .. } = self.types;
        let Types { weights: weights_type, accumulator, .. } = self.types;
        let blueprint = self.extent.blueprint(Pass::Backward, logits_type.size());
        log::trace!("CrossEntropy backward: {rows}×{columns}, {:?}, {blueprint:?}", self.types);
        let form = Form::new(self.options, self.types);
        let saved = SAVED * rows;
        let address_type = address(self.logits.len.max(self.dlogits.len(rows)).max(saved));
        let (logits, logits_rows) = self.logits.args(width);
        let (dlogits, dlogits_rows) = self.dlogits.args(rows, width);
        // SAFETY: lengths are what the handles span; rows and columns past the end are not written.
        // Where the gradient is written over the logits, a unit writes what only it has use for, and has
        // read; what others read of that they discard.
        unsafe {
            let buffer = |handle, len| BufferArg::from_raw_parts(handle, len);
            cross_entropy_backward_kernel::launch_unchecked(
                client,
                cubes(blueprint.cubes(rows, hardware), 1, client),
                blueprint.cube_dim(),
                address_type,
                width,
                logits,
                buffer(self.targets, rows),
                self.weights.map(|weights| buffer(weights, columns)).into(),
                buffer(self.saved, saved),
                buffer(self.grad, rows),
                dlogits,
                logits_rows,
                dlogits_rows,
                rows,
                LengthLaunch::of(columns, width),
                InputScalar::new(self.options.ignored.unwrap_or(0), targets_type),
                InputScalar::new(self.options.smoothing, accumulator),
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
fn cross_entropy_backward_kernel<F: Numeric, I: Int, W: Numeric, A: Float, V: Size>(
    logits: &[Vector<F, V>],
    targets: &[I],
    weights: ComptimeOption<&[Vector<W, V>]>,
    saved: &[A],
    grad: &[A],
    dlogits: &mut [Vector<F, V>],
    logits_rows: Rows,
    dlogits_rows: EvenRows,
    rows: usize,
    length: Length,
    ignored: InputScalar,
    smoothing: InputScalar,
    #[comptime] form: Form,
    #[comptime] blueprint: Blueprint,
    #[define(F)] _logits_type: ElemType,
    #[define(I)] _targets_type: ElemType,
    #[define(W)] _weights_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let row = team_position(blueprint);
    if row < rows {
        let lane = lane(blueprint);
        let ends = blueprint.ends;
        let (from, to) = (logits_rows.row(row), dlogits_rows.row(row));
        let target = target::<I>(targets, row, &ignored, &length, form);
        let largest = Vector::<A, V>::new(saved[row]);
        let log_total = Vector::<A, V>::new(saved[rows + row]);
        let grad = grad[row];
        let mass = Vector::<A, V>::new(grad * saved[2 * rows + row]);
        let mut of_class = grad * weight::<W, A, V>(weights, &target, &length, ends);
        let mut of_all = A::new(0.0);
        if comptime!(form.smooths) {
            let smoothing = smoothing.get::<A>();
            of_class *= A::new(1.0) - smoothing;
            of_all = grad * Count::<A>::of(length.columns).mean(smoothing);
        }
        let width = largest.vector_size();
        let mut held = Array::<Vector<F, V>>::new(blueprint.held);
        let mut start = lane;
        while start < length.vectors + lane {
            load_any(logits, &from, start, &length, &mut held, 0usize, blueprint);
            #[unroll]
            for i in 0..blueprint.held {
                let ends = comptime!(blueprint.ends_of(i));
                let column = start + i * blueprint.lanes;
                let distance = widened::<F, A, V>(held[i]) - largest - log_total;
                let mut value = exp::<A, V>(distance) * mass;
                if comptime!(form.smooths) {
                    value -= smoothed::<W, A, V>(weights, of_all, column, &length, ends);
                }
                if column == target.column / width {
                    #[unroll]
                    for e in 0..width {
                        let less = value.extract(e) - of_class;
                        let is_class = target.column % width == e.runtime();
                        value.insert(e, select(is_class, less, value.extract(e)));
                    }
                }
                // Also of logits that are not numbers.
                let value = select(target.ignored, Vector::zero(), value);
                let own = true.runtime();
                store(dlogits, &to, column, &length, own, value, ends);
            }
            start += comptime!(blueprint.held * blueprint.lanes);
        }
    }
}

/// `of_all`, times the weights if there are such.
#[cube]
fn smoothed<W: Numeric, A: Float, V: Size>(
    weights: ComptimeOption<&[Vector<W, V>]>,
    of_all: A,
    column: usize,
    length: &Length,
    #[comptime] ends: Ends,
) -> Vector<A, V> {
    let mut value = Vector::<A, V>::new(of_all);
    #[comptime]
    match weights {
        ComptimeOption::Some(weights) => {
            let weights = read_any(weights, &Row::only(), column, length, ends);
            value *= widened::<W, A, V>(weights);
        }
        ComptimeOption::None => {}
    }
    value
}
