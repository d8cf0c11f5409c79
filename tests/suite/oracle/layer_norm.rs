use super::{ColumnSums, Expected, magnitude, sum};

/// LayerNorm of rows as long as `gamma` and `beta`, and its gradients given that of its output.
///
/// The scale of `y` is its row's largest magnitude, or that of the row's x̂·γ where that is larger, as
/// β may cancel it. That of `dx` is its row's too, or that of the row's r·γ·dy where that is larger:
/// dx is that less its mean and its part along x̂, which cancel in short rows (wholly at one and two
/// columns), and a difference inherits its terms' errors.
///
/// A term dy·x̂ of dγ has the scale of dy times x̂, or times the root mean square of the row's x̂ where
/// that is larger: the mean is as exact as its terms' size allows, and what it is off by is as much
/// of an x near it as of one far from it.
pub fn layer_norm(x: &[f64], gamma: &[f64], beta: &[f64], dy: &[f64], epsilon: f64) -> Expected {
    let columns = gamma.len();
    let mut expected = Expected::default();
    let (mut dgamma, mut dbeta) = (ColumnSums::new(columns), ColumnSums::new(columns));
    let mean = |terms: &[f64]| sum(terms.iter().copied()) / columns as f64;
    for (x, dy) in x.chunks_exact(columns).zip(dy.chunks_exact(columns)) {
        // Twice, so that what the first mean is off by is taken out as well.
        let first = mean(x);
        let centered: Vec<f64> = x.iter().map(|x| x - first).collect();
        let rest = mean(&centered);
        let centered: Vec<f64> = centered.iter().map(|x| x - rest).collect();
        let variance = mean(&centered.iter().map(|x| x * x).collect::<Vec<_>>());
        let r = 1.0 / (variance + epsilon).sqrt();
        let normalized: Vec<f64> = centered.iter().map(|x| x * r).collect();
        let scaled: Vec<f64> = dy.iter().zip(gamma).map(|(dy, gamma)| dy * gamma).collect();

        let scaled_x = normalized.iter().zip(gamma).map(|(x, gamma)| x * gamma);
        let y: Vec<f64> = scaled_x.clone().zip(beta).map(|(x, beta)| x + beta).collect();
        let scale = magnitude(y.iter().copied().chain(scaled_x));
        expected.y.push_row(y, scale);

        let products: Vec<f64> = normalized.iter().zip(&scaled).map(|(x, dy)| x * dy).collect();
        let (along, level) = (mean(&products), mean(&scaled));
        let terms = normalized.iter().zip(&scaled);
        let dx: Vec<f64> = terms.map(|(x, dy)| r * (dy - level - x * along)).collect();
        let scale = magnitude(dx.iter().copied().chain(scaled.iter().map(|dy| r * dy)));
        expected.dx.push_row(dx, scale);

        let size = r * variance.sqrt();
        let terms = normalized.iter().zip(dy);
        dgamma.add_scaled(terms.map(|(x, dy)| (x * dy, x.abs().max(size) * dy)));
        dbeta.add(dy.iter().copied());
    }
    expected.parameters.extend([dgamma, dbeta].map(ColumnSums::finish));
    expected
}
