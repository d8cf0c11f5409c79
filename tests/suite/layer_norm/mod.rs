//! LayerNorm.

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
mod parameters;
mod records;

/// LayerNorm with its epsilon.
#[derive(Debug, Clone, Copy)]
pub struct LayerNorm(pub f64);

impl Default for LayerNorm {
    fn default() -> Self {
        Self(1e-5)
    }
}

impl Checked for LayerNorm {
    fn attempt<const D: usize, const K: usize>(
        &self,
        x: Tensor<D>,
        mut parameters: Vec<Option<Tensor<K>>>,
    ) -> Result<Tensor<D>, FusedError> {
        let (beta, gamma) = (parameters.remove(1), parameters.remove(0));
        burn_fused::try_layer_norm(x, gamma, beta, self.0)
    }

    fn execution<const D: usize, const K: usize>(
        &self,
        x: &Tensor<D>,
        parameters: &[Option<Tensor<K>>],
    ) -> Result<Execution, FusedError> {
        burn_fused::layer_norm_execution(x, parameters[0].as_ref(), parameters[1].as_ref())
    }
}

impl Op for LayerNorm {
    const NAME: &'static str = "layer_norm";
    const PARAMETERS: &'static [&'static str] = &["gamma", "beta"];
    const AXES: usize = usize::MAX;

    fn forward<const D: usize, const K: usize>(
        &self,
        x: Tensor<D>,
        mut parameters: Vec<Option<Tensor<K>>>,
    ) -> Tensor<D> {
        let (beta, gamma) = (parameters.remove(1), parameters.remove(0));
        burn_fused::layer_norm(x, gamma, beta, self.0)
    }

    fn oracle(
        &self,
        x: &[f64],
        columns: usize,
        parameters: &[Option<&[f64]>],
        dy: &[f64],
        _: Option<&[f64]>,
    ) -> Expected {
        let (ones, zeros) = (vec![1.0; columns], vec![0.0; columns]);
        let (gamma, beta) = (parameters[0].unwrap_or(&ones), parameters[1].unwrap_or(&zeros));
        let mut expected = oracle::layer_norm(x, gamma, beta, dy, self.0);
        let given = expected.parameters.into_iter().zip(parameters);
        expected.parameters = given.filter(|(_, p)| p.is_some()).map(|(exact, _)| exact).collect();
        expected
    }
}
