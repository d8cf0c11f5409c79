use super::{ColumnSums, Expected, magnitude, sum};

/// RMSNorm of rows as long as `gamma`, and its gradients given that of its output.
///
/// The scale of `y` is its row's largest magnitude. That of `dx` is its row's too, or that of the
/// row's r·γ·dy where that is larger: dx is the difference of it and of r·x̂·mean(γ·dy·x̂), which
/// cancel in short rows (wholly at one column), and a difference inherits its terms' errors.
pub fn rms_norm(x: &[f64], gamma: &[f64], dy: &[f64], epsilon: f64) -> Expected {
    let columns = gamma.len();
    let mut expected = Expected::default();
    let mut dgamma = ColumnSums::new(columns);
    for (x, dy) in x.chunks_exact(columns).zip(dy.chunks_exact(columns)) {
        let mean_square = sum(x.iter().map(|x| x * x)) / columns as f64;
        let r = 1.0 / (mean_square + epsilon).sqrt();
        let normalized: Vec<f64> = x.iter().map(|x| x * r).collect();
        let scaled: Vec<f64> = dy.iter().zip(gamma).map(|(dy, gamma)| dy * gamma).collect();

        let y: Vec<f64> = normalized.iter().zip(gamma).map(|(x, gamma)| x * gamma).collect();
        let scale = magnitude(y.iter().copied());
        expected.y.push_row(y, scale);

        let products = normalized.iter().zip(&scaled).map(|(x, dy)| x * dy);
        let mean = sum(products) / columns as f64;
        let dx: Vec<f64> =
            normalized.iter().zip(&scaled).map(|(x, dy)| r * (dy - x * mean)).collect();
        let scale = magnitude(dx.iter().copied().chain(scaled.iter().map(|dy| r * dy)));
        expected.dx.push_row(dx, scale);

        dgamma.add(normalized.iter().zip(dy).map(|(x, dy)| x * dy));
    }
    expected.parameters.push(dgamma.finish());
    expected
}
