use super::{Exact, magnitude, sum};

/// What a call of cross-entropy is given beside the logits.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Of a row that is left out the loss is 0, where there is no such class NaN.
    pub classes: Vec<Result<usize, Missing>>,
    pub weights: Option<Vec<f64>>,
    pub smoothing: f64,
}

/// Why a row has no class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    Ignored,
    NoSuchClass,
}

/// Losses, and the logits' gradients given those of the losses.
///
/// The scale of a loss is that of what it is a sum of, each at least a weight: the logarithm of a sum of
/// exponentials near 1 is as exact as that sum. That of a gradient is its row's largest magnitude, or that of a part
/// that others cancel.
pub fn cross_entropy(logits: &[f64], columns: usize, terms: &Terms, grads: &[f64]) -> [Exact; 2] {
    let mut exact = [Exact::default(), Exact::default()];
    let weight = |c: usize| terms.weights.as_ref().map_or(1.0, |weights| weights[c]);
    let smoothing = terms.smoothing;
    let per_class = smoothing / columns as f64;
    for (row, x) in logits.chunks_exact(columns).enumerate() {
        let class = match terms.classes[row] {
            Ok(class) => class,
            Err(missing) => {
                let value = if missing == Missing::Ignored { 0.0 } else { f64::NAN };
                exact[0].push_row([value], 0.0);
                exact[1].push_row(vec![value; columns], 0.0);
                continue;
            }
        };
        let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let largest = if x.iter().any(|x| x.is_nan()) { f64::NAN } else { largest };
        let total = sum(x.iter().map(|x| (x - largest).exp())).ln();
        let far = |c: usize| (largest - x[c]) + total;
        let of_class = (1.0 - smoothing) * weight(class);
        let mut loss = of_class * far(class);
        let mut scale = of_class * magnitude([far(class)]).max(1.0);
        if smoothing > 0.0 {
            loss += per_class * sum((0..columns).map(|c| weight(c) * far(c)));
            let size = |c: usize| magnitude([far(c), far(class)]).max(1.0);
            scale += per_class * sum((0..columns).map(|c| weight(c) * size(c)));
        }
        exact[0].push_row([loss], scale);
        let mass = of_class + per_class * sum((0..columns).map(weight));
        let parts = |c: usize| {
            let share = mass * (x[c] - largest - total).exp();
            let of_class = if c == class { of_class } else { 0.0 };
            [share, of_class, if smoothing > 0.0 { per_class * weight(c) } else { 0.0 }]
        };
        let scale = magnitude((0..columns).flat_map(parts)) * grads[row].abs();
        let gradient = (0..columns).map(|c| {
            let [share, of_class, of_all] = parts(c);
            grads[row] * (share - of_class - of_all)
        });
        exact[1].push_row(gradient.collect::<Vec<_>>(), scale);
    }
    exact
}
