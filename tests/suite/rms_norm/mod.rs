//! RMSNorm.

use crate::{
    op::Op,
    oracle::{self, Expected},
};
use burn::tensor::Tensor;

mod errors;
mod execution;
mod laws;
mod model;
mod module;
mod numbers;
mod published;
mod records;

/// RMSNorm with its epsilon.
#[derive(Debug, Clone, Copy)]
pub struct RmsNorm(pub f64);

impl Default for RmsNorm {
    fn default() -> Self {
        Self(1e-5)
    }
}

impl Op for RmsNorm {
    const NAME: &'static str = "rms_norm";
    const PARAMETERS: &'static [&'static str] = &["gamma"];

    fn forward<const D: usize, const K: usize>(
        &self,
        x: Tensor<D>,
        mut parameters: Vec<Option<Tensor<K>>>,
    ) -> Tensor<D> {
        burn_fused::rms_norm(x, parameters.remove(0), self.0)
    }

    fn oracle(
        &self,
        x: &[f64],
        columns: usize,
        parameters: &[Option<&[f64]>],
        dy: &[f64],
    ) -> Expected {
        let ones = vec![1.0; columns];
        let mut expected = oracle::rms_norm(x, parameters[0].unwrap_or(&ones), dy, self.0);
        if parameters[0].is_none() {
            expected.parameters.clear();
        }
        expected
    }
}
