//! Softmax of attention scores: `y = exp(s − m) / Σ exp(s − m)` with `s = scale·x + bias` and `m = max(s)`, along
//! the last dimension. `s` is −∞ where it is left out, and `y` zero in a row where all are.

use super::{
    Extent, Input, Written,
    exponentials::{Form, RowExponentials, exp, scale, share},
    rows::Launch,
};
use crate::kernels::{
    matrix::Matrix,
    plan::{Blueprint, Ends, Pass, address},
    row::{EvenRows, Length, Row, Rows, inside_or, load_any, read_any, store},
    stored::widened,
    sums::{elements_max, elements_sum, two_sums},
    team::{Team, lane, team_position},
};
use cubecl::{client::Client, ir::ElemType, prelude::*};

/// A forward pass.
pub(crate) struct Attention {
    pub extent: Extent,
    pub types: Types,
    pub scale: f64,
    /// Keys before the first query, which sees no key behind its own.
    pub causal: Option<usize>,
    /// Rows that belong to one another: so many follow the first query.
    pub queries: usize,
    pub x: Input,
    /// Where they are left out, laid out as the scores are.
    pub mask: Option<Matrix>,
    pub bias: Option<Matrix>,
    pub y: Written,
}

/// The element types of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Types {
    pub x: ElemType,
    pub mask: ElemType,
    pub bias: ElemType,
    pub accumulator: ElemType,
}

impl Attention {
    pub(crate) fn launch(self, client: &Client) {
        let Self { extent, types, x, y, .. } = self;
        let Extent { outer, length, width, .. } = extent;
        let size = types.x.size();
        let blueprint = Blueprint {
            ahead: 0,
            kept: 0,
            ..super::rows::blueprint(Pass::Forward, extent, false, size)
        };
        log::trace!("Attention softmax: {outer}×{length}, {types:?}, {blueprint:?}");
        let Launch { length, count, dim } = Launch::of(blueprint, extent, client);
        let len = |matrix: &Option<Matrix>| matrix.as_ref().map_or(0, |matrix| matrix.len);
        let beside = len(&self.mask).max(len(&self.bias));
        let address_type = address(y.rows.len(outer).max(x.matrix.len).max(beside));
        let args = |matrix: Option<Matrix>| matrix.map(|matrix| matrix.args(width)).unzip();
        let (x, x_rows) = x.matrix.args(width);
        let (y, y_rows) = y.rows.args(outer, width);
        let ((mask, mask_rows), (bias, bias_rows)) = (args(self.mask), args(self.bias));
        let form = AttentionForm {
            causal: self.causal.is_some(),
            exact: types.x.size() == types.accumulator.size(),
            double: types.accumulator.size() == 8,
        };
        // SAFETY: lengths are what the handles span; rows and columns past the end are not written, and
        // read as the last ones. Where `y` is `x`, a unit writes what only it has use for, and has read;
        // what others read of that they discard.
        unsafe {
            attention_softmax_kernel::launch_unchecked(
                client,
                count,
                dim,
                address_type,
                width,
                x,
                mask.into(),
                bias.into(),
                y,
                x_rows,
                mask_rows.into(),
                bias_rows.into(),
                y_rows,
                outer,
                length,
                InputScalar::new(self.scale, types.accumulator),
                InputScalar::new(f64::NEG_INFINITY, types.accumulator),
                self.queries,
                self.causal.unwrap_or(0),
                form,
                blueprint,
                types.x,
                types.mask,
                types.bias,
                types.accumulator,
            );
        }
    }
}

/// What a kernel does. Compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct AttentionForm {
    causal: bool,
    /// Whether scores are not to be rounded: beside the rounding of a narrower output that is nothing.
    exact: bool,
    /// Whether the accumulator is f64.
    double: bool,
}

/// Up to where a score keeps what was rounded off it, less than a quarter. Beyond, a finite mask may be in it:
/// what that has rounded off would be all that is left.
fn most_with_rest(form: AttentionForm) -> f32 {
    2f32.powi(if form.double { 51 } else { 22 })
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn attention_softmax_kernel<F: Numeric, M: Int, W: Numeric, A: Float, V: Size>(
    x: &[Vector<F, V>],
    mask: ComptimeOption<&[Vector<M, V>]>,
    bias: ComptimeOption<&[Vector<W, V>]>,
    y: &mut [Vector<F, V>],
    x_rows: Rows,
    mask_rows: ComptimeOption<Rows>,
    bias_rows: ComptimeOption<Rows>,
    y_rows: EvenRows,
    rows: usize,
    length: Length,
    scale: InputScalar,
    minus_infinity: InputScalar,
    queries: usize,
    offset: usize,
    #[comptime] form: AttentionForm,
    #[comptime] blueprint: Blueprint,
    #[define(F)] _x_type: ElemType,
    #[define(M)] _mask_type: ElemType,
    #[define(W)] _bias_type: ElemType,
    #[define(A)] _accumulator_type: ElemType,
) {
    let row = team_position(blueprint);
    // Every unit takes part where others wait for it.
    let own = row < rows;
    let row = usize::min(row, rows - 1);
    let lane = lane(blueprint);
    let from = x_rows.row(row);
    let to = y_rows.row(row);
    let scores = Scoring::<M, W, A, V>::new(
        Beside::<M, V>::new(mask, mask_rows.map(|rows| rows.row(row))),
        Beside::<W, V>::new(bias, bias_rows.map(|rows| rows.row(row))),
        scale.get::<A>(),
        minus_infinity.get::<A>(),
        row % queries + offset + 1,
        form,
    );
    let of_shares = comptime!(Form { log: false, narrow: !form.exact });
    let mut team = Team::<A>::new(form.exact, blueprint);
    let mut held = Array::<Vector<F, V>>::new(blueprint.held);
    let mut sums = Array::<Vector<A, V>>::new(blueprint.held);
    let mut rests = Array::<Vector<A, V>>::new(blueprint.held);
    if comptime!(blueprint.chunked) {
        let mut exponentials = RowExponentials::<A>::new();
        let chunk = comptime!(blueprint.held * blueprint.lanes);
        let mut start = lane;
        while start < length.vectors + lane {
            load_any(x, &from, start, &length, &mut held, 0usize, blueprint);
            let largest = scores.take::<F>(&held, &mut sums, &mut rests, start, &length, blueprint);
            let largest = Vector::new(elements_max::<A, V>(largest));
            let base = Vector::<A, V>::new(exponentials.raise(largest).extract(0usize));
            let mut terms = Vector::<A, V>::zero();
            #[unroll]
            for i in 0..blueprint.held {
                terms += exponential::<A, V>(sums[i], rests[i], base, form);
            }
            exponentials.add(Vector::new(elements_sum::<A, V>(terms)));
            start += chunk;
        }
        let largest = team.max(exponentials.largest.extract(0usize));
        let total = team.sum(exponentials.total(Vector::new(largest)).extract(0usize));
        let largest = Vector::<A, V>::new(largest);
        let total = scale_of::<A, V>(total, of_shares);
        let mut start = lane;
        while start < length.vectors + lane {
            load_any(x, &from, start, &length, &mut held, 0usize, blueprint);
            scores.take::<F>(&held, &mut sums, &mut rests, start, &length, blueprint);
            #[unroll]
            for i in 0..blueprint.held {
                let value = exponential::<A, V>(sums[i], rests[i], largest, form);
                let value = share::<A, V>(value, total, of_shares);
                let ends = comptime!(blueprint.ends_of(i));
                store(y, &to, start + i * blueprint.lanes, &length, own, value, ends);
            }
            start += chunk;
        }
    } else {
        load_any(x, &from, lane, &length, &mut held, 0usize, blueprint);
        let largest = scores.take::<F>(&held, &mut sums, &mut rests, lane, &length, blueprint);
        let largest = Vector::<A, V>::new(team.max(elements_max::<A, V>(largest)));
        let mut total = Vector::<A, V>::zero();
        #[unroll]
        for i in 0..blueprint.held {
            sums[i] = exponential::<A, V>(sums[i], rests[i], largest, form);
            total += sums[i];
        }
        let total = scale_of::<A, V>(team.sum(elements_sum::<A, V>(total)), of_shares);
        #[unroll]
        for i in 0..blueprint.held {
            let value = share::<A, V>(sums[i], total, of_shares);
            let ends = comptime!(blueprint.ends_of(i));
            store(y, &to, lane + i * blueprint.lanes, &length, own, value, ends);
        }
    }
}

/// A row that is read beside the scores', if there is one.
#[derive(CubeType)]
struct Beside<'a, T: Numeric, V: Size> {
    vectors: ComptimeOption<&'a [Vector<T, V>]>,
    row: ComptimeOption<Row>,
}

#[cube]
impl<'a, T: Numeric, V: Size> Beside<'a, T, V> {
    fn new(vectors: ComptimeOption<&'a [Vector<T, V>]>, row: ComptimeOption<Row>) -> Self {
        Beside::<'a, T, V> { vectors, row }
    }
}

/// What makes scores of a row's inputs.
#[derive(CubeType)]
struct Scoring<'a, 'b, M: Int, W: Numeric, A: Float, V: Size> {
    mask: Beside<'a, M, V>,
    bias: Beside<'b, W, V>,
    scale: A,
    minus_infinity: A,
    /// Columns that a causal form has not left out.
    seen: usize,
    #[cube(comptime)]
    form: AttentionForm,
}

#[cube]
impl<'a, 'b, M: Int, W: Numeric, A: Float, V: Size> Scoring<'a, 'b, M, W, A, V> {
    fn new(
        mask: Beside<'a, M, V>,
        bias: Beside<'b, W, V>,
        scale: A,
        minus_infinity: A,
        seen: usize,
        #[comptime] form: AttentionForm,
    ) -> Self {
        Scoring::<'a, 'b, M, W, A, V> { mask, bias, scale, minus_infinity, seen, form }
    }

    /// Scores of what is held as sums, and what was rounded off them; −∞ past the row's end. Returns the largest
    /// sum, the least finite number if all are −∞.
    fn take<F: Numeric>(
        &self,
        held: &Array<Vector<F, V>>,
        sums: &mut Array<Vector<A, V>>,
        rests: &mut Array<Vector<A, V>>,
        start: usize,
        length: &Length,
        #[comptime] blueprint: Blueprint,
    ) -> Vector<A, V> {
        let mut largest = Vector::<A, V>::new(A::min_value());
        #[unroll]
        for i in 0..blueprint.held {
            let ends = comptime!(blueprint.ends_of(i));
            let column = start + i * blueprint.lanes;
            let (sum, rest) = self.score(widened::<F, A, V>(held[i]), column, length, ends);
            let sum = self.left_out(sum, column, length, ends);
            sums[i] = sum;
            rests[i] = rest;
            largest = max(largest, sum);
        }
        largest
    }

    /// `scale·x + bias`, and what was rounded off it.
    fn score(
        &self,
        x: Vector<A, V>,
        column: usize,
        length: &Length,
        #[comptime] ends: Ends,
    ) -> (Vector<A, V>, Vector<A, V>) {
        let scale = Vector::<A, V>::new(self.scale);
        let mut sum = x * scale;
        let mut rest = Vector::<A, V>::zero();
        if comptime!(self.form.exact) {
            rest = fma(x, scale, -sum);
        }
        #[comptime]
        match self.bias.vectors {
            ComptimeOption::Some(bias) => {
                let row = self.bias.row.as_ref().unwrap();
                let bias = widened::<W, A, V>(read_any(bias, row, column, length, ends));
                let (with, lost) = two_sums::<A, V>(sum, bias);
                sum = with;
                if comptime!(self.form.exact) {
                    rest += lost;
                }
            }
            ComptimeOption::None => {}
        }
        if comptime!(self.form.exact) {
            let most = Vector::new(A::new(comptime!(most_with_rest(self.form))));
            rest = select_many(sum.abs().less_equal(&most), rest, Vector::zero());
        }
        (sum, rest)
    }

    /// A vector of scores, −∞ for those that are left out.
    fn left_out(
        &self,
        scores: Vector<A, V>,
        column: usize,
        length: &Length,
        #[comptime] ends: Ends,
    ) -> Vector<A, V> {
        let mut scores = scores;
        let none = Vector::<A, V>::new(self.minus_infinity);
        #[comptime]
        match self.mask.vectors {
            ComptimeOption::Some(mask) => {
                let row = self.mask.row.as_ref().unwrap();
                let mask = read_any(mask, row, column, length, ends);
                scores = select_many(mask.not_equal(&Vector::zero()), none, scores);
            }
            ComptimeOption::None => {}
        }
        let width = none.vector_size();
        if comptime!(self.form.causal) {
            let first = column * width;
            #[unroll]
            for e in 0..width {
                let seen = first + e < self.seen;
                scores.insert(e, select(seen, scores.extract(e), self.minus_infinity));
            }
        }
        inside_or(scores, self.minus_infinity, column, length, ends)
    }
}

/// `exp(s − m)` of a sum with what was rounded off it, as if nothing else were rounded either, where that is asked.
#[cube]
fn exponential<A: Float, V: Size>(
    sum: Vector<A, V>,
    rest: Vector<A, V>,
    largest: Vector<A, V>,
    #[comptime] form: AttentionForm,
) -> Vector<A, V> {
    if comptime!(form.exact) {
        let (distance, lost) = two_sums::<A, V>(sum, -largest);
        let finite = distance.abs().less_equal(&Vector::new(A::max_value()));
        // Together again: what is off the score is not small beside 1, as what is off this is.
        let (whole, rest) = two_sums::<A, V>(distance, lost + rest);
        // Nothing is off an infinite distance.
        let exponential = exp::<A, V>(select_many(finite, whole, distance));
        fma(exponential, select_many(finite, rest, Vector::zero()), exponential)
    } else {
        exp::<A, V>(sum - largest)
    }
}

/// What [`share`] takes of the sum of a row's exponentials, which is zero where all is left out.
#[cube]
fn scale_of<A: Float, V: Size>(total: A, #[comptime] form: Form) -> Vector<A, V> {
    let total = select(total == A::new(0.0), A::new(1.0), total);
    scale::<A, V>(Vector::new(total), form)
}
