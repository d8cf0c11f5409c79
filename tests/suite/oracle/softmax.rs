use super::{Expected, magnitude, sum};

/// Softmax of rows of `columns`, and the gradient of its input given that of its output. The
/// gradient follows from `y`, the output as it was rounded, or from the exact one.
///
/// The scale of `y` is its row's largest magnitude; that of `dx` the product of y's and dy's.
pub fn softmax(x: &[f64], columns: usize, dy: &[f64], y: Option<&[f64]>) -> Expected {
    let mut expected = Expected::default();
    for x in x.chunks_exact(columns.max(1)) {
        let (shifted, total) = exponentials(x);
        let row: Vec<f64> = shifted.iter().map(|x| x.exp() / total).collect();
        let scale = magnitude(row.iter().copied());
        expected.y.push_row(row, scale);
    }
    let y = y.map_or_else(|| expected.y.values.clone(), <[f64]>::to_vec);
    for (y, dy) in y.chunks_exact(columns.max(1)).zip(dy.chunks_exact(columns.max(1))) {
        let dot = sum(y.iter().zip(dy).map(|(y, dy)| y * dy));
        let dx = y.iter().zip(dy).map(|(y, dy)| y * (dy - dot));
        let scale = magnitude(y.iter().copied()) * magnitude(dy.iter().copied());
        expected.dx.push_row(dx, scale);
    }
    expected
}

/// Log-softmax, as [`softmax`].
///
/// The scale of `dx` is the row's largest dy, or the largest of its second term where that is
/// larger, of which Σ dy is as exact as the root of the sum of its squared terms.
pub fn log_softmax(x: &[f64], columns: usize, dy: &[f64], y: Option<&[f64]>) -> Expected {
    let mut expected = Expected::default();
    for x in x.chunks_exact(columns.max(1)) {
        let (shifted, total) = exponentials(x);
        let row: Vec<f64> = shifted.iter().map(|x| x - total.ln()).collect();
        let scale = magnitude(row.iter().copied());
        expected.y.push_row(row, scale);
    }
    let y = y.map_or_else(|| expected.y.values.clone(), <[f64]>::to_vec);
    for (y, dy) in y.chunks_exact(columns.max(1)).zip(dy.chunks_exact(columns.max(1))) {
        let total = sum(dy.iter().copied());
        let dx = y.iter().zip(dy).map(|(y, dy)| dy - y.exp() * total);
        let terms = magnitude([total, dy.iter().map(|dy| dy * dy).sum::<f64>().sqrt()]);
        let second = magnitude(y.iter().map(|y| y.exp())) * terms;
        let scale = magnitude(dy.iter().copied().chain([second]));
        expected.dx.push_row(dx, scale);
    }
    expected
}

/// A row less its largest value, and the sum of its exponentials.
fn exponentials(x: &[f64]) -> (Vec<f64>, f64) {
    // NaN is passed over; it makes the sum NaN, as does a largest value that is infinite.
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let shifted: Vec<f64> = x.iter().map(|x| x - largest).collect();
    let total = sum(shifted.iter().map(|x| x.exp()));
    (shifted, total)
}
