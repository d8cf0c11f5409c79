//! The ops in f64 with plain loops, and for each value the scale that its error is measured by.

mod attention_softmax;
mod cross_entropy;
mod layer_norm;
mod rms_norm;
mod softmax;

pub use attention_softmax::{Scores, attention_softmax};
pub use cross_entropy::{Missing, Terms, cross_entropy};
pub use layer_norm::layer_norm;
pub use rms_norm::rms_norm;
pub use softmax::{log_softmax, softmax};

/// Exact values, each with its scale.
#[derive(Debug, Default, Clone)]
pub struct Exact {
    pub values: Vec<f64>,
    pub scales: Vec<f64>,
}

impl Exact {
    /// Appends a row whose values share the scale.
    pub fn push_row(&mut self, row: impl IntoIterator<Item = f64>, scale: f64) {
        self.values.extend(row);
        self.scales.resize(self.values.len(), scale);
    }
}

/// What a call and its backward pass must give.
#[derive(Debug, Default, Clone)]
pub struct Expected {
    pub y: Exact,
    pub dx: Exact,
    pub parameters: Vec<Exact>,
}

/// The largest magnitude; NaN and infinities are left out, as they set no scale.
pub fn magnitude(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().map(f64::abs).filter(|v| v.is_finite()).fold(0.0, f64::max)
}

/// A sum with its rounding errors added back (Neumaier 1974), for rows too long for plain f64.
pub fn sum(terms: impl IntoIterator<Item = f64>) -> f64 {
    let mut total = Total::default();
    for term in terms {
        total.add(term);
    }
    total.value()
}

/// A running [`sum`].
#[derive(Debug, Default, Clone, Copy)]
pub struct Total {
    sum: f64,
    lost: f64,
}

impl Total {
    pub fn add(&mut self, term: f64) {
        let next = self.sum + term;
        self.lost += if self.sum.abs() >= term.abs() {
            (self.sum - next) + term
        } else {
            (term - next) + self.sum
        };
        self.sum = next;
    }

    pub fn value(self) -> f64 {
        // An infinite or NaN sum has no error to add back.
        if self.sum.is_finite() { self.sum + self.lost } else { self.sum }
    }
}

/// The sum over rows of each column, and its scale.
///
/// The scale is the root of the sum of the terms' squared scales, which is what rounding errors of
/// random sign add up to; or the sum itself where that is larger, as it can't be closer than its own
/// rounding.
#[derive(Debug, Clone)]
pub struct ColumnSums(Vec<(Total, f64)>);

impl ColumnSums {
    pub fn new(columns: usize) -> Self {
        Self(vec![Default::default(); columns])
    }

    /// Adds terms that are as exact as their own rounding.
    pub fn add(&mut self, row: impl IntoIterator<Item = f64>) {
        self.add_scaled(row.into_iter().map(|term| (term, term)));
    }

    /// Adds terms, each with its scale.
    pub fn add_scaled(&mut self, row: impl IntoIterator<Item = (f64, f64)>) {
        for (column, (term, scale)) in row.into_iter().enumerate() {
            self.add_at(column, term, scale);
        }
    }

    /// Adds a term of one column.
    pub fn add_at(&mut self, column: usize, term: f64, scale: f64) {
        let (total, squares) = &mut self.0[column];
        total.add(term);
        *squares += if scale.is_finite() { scale * scale } else { 0.0 };
    }

    pub fn finish(self) -> Exact {
        let sums = self.0.iter().map(|(total, _)| total.value());
        let scales =
            self.0.iter().map(|(total, squares)| squares.sqrt().max(magnitude([total.value()])));
        Exact { values: sums.collect(), scales: scales.collect() }
    }
}
