use crate::nn::{LayerNorm, RmsNorm};
use burn::tensor::Tensor;

/// What the blocks of a transformer add to, `[batch, length, d_model]`. What the last one gave is not added yet:
/// the norm that comes next does that, in the same pass.
#[derive(Debug, Clone)]
pub struct ResidualStream {
    sum: Tensor<3>,
    pending: Option<Tensor<3>>,
}

impl From<Tensor<3>> for ResidualStream {
    fn from(x: Tensor<3>) -> Self {
        Self { sum: x, pending: None }
    }
}

impl ResidualStream {
    /// The stream normalised, for a block to work on, and the stream.
    pub fn normalise(self, norm: &impl Norm) -> (Tensor<3>, Self) {
        match self.pending {
            Some(pending) => {
                let (y, sum) = norm.forward_add(pending, self.sum);
                (y, sum.into())
            }
            None => (norm.forward(self.sum.clone()), self),
        }
    }

    /// Adds what a block gave.
    pub fn plus(self, output: Tensor<3>) -> Self {
        Self { sum: self.sum(), pending: Some(output) }
    }

    /// The stream as a tensor.
    pub fn sum(self) -> Tensor<3> {
        match self.pending {
            Some(pending) => self.sum + pending,
            None => self.sum,
        }
    }
}

/// A norm of the last dimension, of a tensor or of a sum.
pub trait Norm {
    /// Normalises `x`.
    fn forward(&self, x: Tensor<3>) -> Tensor<3>;

    /// Normalises `x + residual`, and gives that sum as well.
    fn forward_add(&self, x: Tensor<3>, residual: Tensor<3>) -> (Tensor<3>, Tensor<3>);
}

macro_rules! norm {
    ($norm:ident) => {
        impl Norm for $norm {
            fn forward(&self, x: Tensor<3>) -> Tensor<3> {
                $norm::forward(self, x)
            }

            fn forward_add(&self, x: Tensor<3>, residual: Tensor<3>) -> (Tensor<3>, Tensor<3>) {
                $norm::forward_add(self, x, residual)
            }
        }
    };
}

norm!(LayerNorm);
norm!(RmsNorm);
