use super::{Exact, magnitude, sum};

/// What is done with scores before their softmax is taken.
#[derive(Debug, Clone)]
pub struct Scores {
    /// `scale·x + bias`
    pub values: Vec<f64>,
    pub left_out: Vec<bool>,
    /// How far off a score of 1 may be by being rounded, as a part of what outputs are measured by: 0 where
    /// none is.
    pub rounding: f64,
}

/// The softmax of rows of `columns` scores, and the gradient of the scores given that of the output, which follows
/// from `y`, the output as it was rounded. The scales are those of [`softmax`](super::softmax()), and larger by
/// what rounding a row's scores does to their exponentials.
pub fn attention_softmax(scores: &Scores, columns: usize, dy: &[f64], y: &[f64]) -> [Exact; 2] {
    let [mut expected, mut gradient] = [Exact::default(), Exact::default()];
    let (columns, rounding) = (columns.max(1), scores.rounding);
    let rows = scores.values.chunks_exact(columns).zip(scores.left_out.chunks_exact(columns));
    for (values, left_out) in rows {
        let scores = || values.iter().zip(left_out).map(|(s, out)| (!out).then_some(*s));
        let largest = scores().flatten().fold(f64::NEG_INFINITY, f64::max);
        let exponential = |s: Option<f64>| match s {
            // Less −∞, in a row of nothing else, would be NaN.
            None | Some(f64::NEG_INFINITY) => 0.0,
            Some(s) => (s - largest).exp(),
        };
        let total = sum(scores().map(exponential));
        let total = if total == 0.0 { 1.0 } else { total };
        let row: Vec<f64> = scores().map(|s| exponential(s) / total).collect();
        let off = rounding * magnitude(scores().flatten());
        let scale = magnitude(row.iter().copied()) * (1.0 + off);
        expected.push_row(row, scale);
    }
    for (y, dy) in y.chunks_exact(columns).zip(dy.chunks_exact(columns)) {
        let dot = sum(y.iter().zip(dy).map(|(y, dy)| y * dy));
        let scale = magnitude(y.iter().copied()) * magnitude(dy.iter().copied());
        gradient.push_row(y.iter().zip(dy).map(|(y, dy)| y * (dy - dot)), scale);
    }
    [expected, gradient]
}
