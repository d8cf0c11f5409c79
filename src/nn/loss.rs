//! Losses with the names of `burn::nn::loss`'s.

use crate::{CrossEntropyOptions, cross_entropy};
use burn::{
    config::Config,
    module::{Content, DisplaySettings, Module, ModuleDisplay},
    tensor::{Bool, Device, Int, Tensor},
};

/// Configuration of [`CrossEntropyLoss`], the same as that of `burn::nn::loss::CrossEntropyLoss`, but for its
/// `logits`: the input is logits, never probabilities.
#[derive(Config, Debug)]
pub struct CrossEntropyLossConfig {
    /// Targets that have no loss. Where all have none the mean is NaN. Default: none
    pub pad_tokens: Option<Vec<usize>>,
    /// A weight for each class. Default: none
    pub weights: Option<Vec<f32>>,
    /// The part of the target distribution that is spread over all classes. Default: none
    pub smoothing: Option<f32>,
}

impl CrossEntropyLossConfig {
    /// The loss, its weights on `device`.
    ///
    /// # Panics
    ///
    /// If smoothing is not from 0 to 1, or a weight is not positive.
    pub fn init(&self, device: &Device) -> CrossEntropyLoss {
        if let Some(alpha) = self.smoothing {
            assert!(
                (0.0..=1.0).contains(&alpha),
                "Alpha of Cross-entropy loss with smoothed labels should be in interval [0, 1]. Got {alpha}"
            );
        }
        if let Some(weights) = &self.weights {
            assert!(
                weights.iter().all(|weight| *weight > 0.0),
                "Weights of cross-entropy have to be positive."
            );
        }
        let weights = self.weights.as_ref();
        CrossEntropyLoss {
            pad_tokens: self.pad_tokens.clone(),
            weights: weights.map(|weights| Tensor::from_floats(weights.as_slice(), device)),
            smoothing: self.smoothing,
        }
    }
}

/// The mean of [`cross_entropy`](fn@crate::cross_entropy) over rows, each counted by the weight of its class.
///
/// It takes the place of `burn::nn::loss::CrossEntropyLoss` on logits. Losses of rows and gradients of logits are the
/// same bits on every run; the mean itself is Burn's.
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct CrossEntropyLoss {
    /// Targets that have no loss.
    pub pad_tokens: Option<Vec<usize>>,
    /// A weight for each class, shape `[classes]`.
    pub weights: Option<Tensor<1>>,
    /// The part of the target distribution that is spread over all classes.
    pub smoothing: Option<f32>,
}

impl CrossEntropyLoss {
    /// The mean loss, f32, or f64 where `logits` are.
    ///
    /// # Shapes
    ///
    /// - `logits`: `[rows, classes]`
    /// - `targets`: `[rows]`
    /// - output: `[1]`
    ///
    /// # Panics
    ///
    /// As [`cross_entropy`](fn@crate::cross_entropy).
    #[track_caller]
    pub fn forward(&self, logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
        let pads = self.pad_tokens.as_deref().unwrap_or_default();
        let equals = |token: &usize| targets.clone().equal_scalar(*token as i64);
        let padded: Option<Tensor<1, Bool>> = pads.iter().map(equals).reduce(Tensor::bool_or);
        let pad = pads.first().map(|token| *token as i64);
        let targets = match (&padded, pad) {
            // All pads are one, which is left out.
            (Some(padded), Some(pad)) if pads.len() > 1 => targets.mask_fill(padded.clone(), pad),
            _ => targets,
        };
        let options = CrossEntropyOptions {
            ignore_index: pad,
            label_smoothing: self.smoothing.map_or(0.0, f64::from),
        };
        let losses = cross_entropy(logits, targets.clone(), self.weights.clone(), options);
        if self.weights.is_none() && padded.is_none() {
            return losses.mean();
        }
        let counts = match &self.weights {
            Some(weights) => {
                // A pad may be no class.
                let classes = targets.clamp(0, weights.dims()[0] as i64 - 1);
                weights.clone().gather(0, classes).cast(losses.dtype())
            }
            None => losses.ones_like(),
        };
        let counts = match padded {
            Some(padded) => counts.mask_fill(padded, 0),
            None => counts,
        };
        losses.sum() / counts.sum()
    }
}

impl ModuleDisplay for CrossEntropyLoss {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let pads = match &self.pad_tokens {
            Some(pads) => format!("Vec<0..{}>", pads.len()),
            None => "None".into(),
        };
        content
            .add("pad_tokens", &pads)
            .add("weights", &self.weights)
            .add("smoothing", &self.smoothing)
            .optional()
    }
}
