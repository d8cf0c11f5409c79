//! RMSNorm.

use crate::{
    op::{Checked, Op},
    oracle::{self, Expected},
};
use burn::tensor::Tensor;
use burn_fused::{FusedError, ops::Execution};

mod errors;
mod laws;
mod module;
mod numbers;
mod records;

/// RMSNorm with its epsilon.
#[derive(Debug, Clone, Copy)]
pub struct RmsNorm(pub f64);

impl Default for RmsNorm {
    fn default() -> Self {
        Self(1e-5)
    }
}

impl Checked for RmsNorm {
    fn attempt<const D: usize, const K: usize>(
        &self,
        x: Tensor<D>,
        mut parameters: Vec<Option<Tensor<K>>>,
    ) -> Result<Tensor<D>, FusedError> {
        burn_fused::try_rms_norm(x, parameters.remove(0), self.0)
    }

    fn execution<const D: usize, const K: usize>(
        &self,
        x: &Tensor<D>,
        parameters: &[Option<Tensor<K>>],
    ) -> Result<Execution, FusedError> {
        burn_fused::rms_norm_execution(x, parameters[0].as_ref())
    }
}

impl Op for RmsNorm {
    const NAME: &'static str = "rms_norm";
    const PARAMETERS: &'static [&'static str] = &["gamma"];
    const AXES: usize = usize::MAX;

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
        _: Option<&[f64]>,
    ) -> Expected {
        let ones = vec![1.0; columns];
        let mut expected = oracle::rms_norm(x, parameters[0].unwrap_or(&ones), dy, self.0);
        if parameters[0].is_none() {
            expected.parameters.clear();
        }
        expected
    }
}
