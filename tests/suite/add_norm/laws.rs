//! What holds for the norm holds for that of a sum with nothing.

use super::AddNorm;
use crate::{laws::laws, layer_norm::LayerNorm, op::Op, oracle::Expected, rms_norm::RmsNorm};
use burn::tensor::Tensor;

/// The norm of `x + 0`.
#[derive(Debug, Clone, Copy)]
struct OfSum<O>(O);

impl<O: AddNorm> Op for OfSum<O> {
    const NAME: &'static str = O::ADD;
    const PARAMETERS: &'static [&'static str] = O::PARAMETERS;
    const AXES: usize = O::AXES;

    fn forward<const D: usize, const K: usize>(
        &self,
        x: Tensor<D>,
        parameters: Vec<Option<Tensor<K>>>,
    ) -> Tensor<D> {
        let zeros = x.zeros_like();
        self.0.add(x, zeros, parameters).0
    }

    fn oracle(
        &self,
        x: &[f64],
        columns: usize,
        parameters: &[Option<&[f64]>],
        dy: &[f64],
        y: Option<&[f64]>,
    ) -> Expected {
        self.0.oracle(x, columns, parameters, dy, y)
    }
}

mod rms_norm {
    use super::*;
    laws! { OfSum(RmsNorm::default()) =>
        graph { only_what_is_tracked, inputs_outside_autodiff, output_used_twice, residual }
        grid { lengths_and_counts }
        in_place { needed_by_the_graph, needed_by_the_parameters, gradients }
        layouts { inputs_and_gradients }
        memory { outputs_are_written_whole, inputs_are_left_alone }
        numbers { not_a_number_stays_in_its_row }
        repeats { alone, in_other_memory }
        rows { alone_and_in_a_batch, in_another_order }
        slopes { of_the_input, of_the_parameters }
    }
}

/// What its three numbers a row and its second parameter may make different.
mod layer_norm {
    use super::*;
    laws! { OfSum(LayerNorm::default()) =>
        graph { only_what_is_tracked, inputs_outside_autodiff, residual }
        grid { lengths_and_counts }
        memory { outputs_are_written_whole }
        numbers { not_a_number_stays_in_its_row }
        repeats { alone }
        rows { alone_and_in_a_batch }
        slopes { of_the_input, of_the_parameters }
    }
}
