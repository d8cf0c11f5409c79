//! Softmax and log-softmax.

use crate::{
    op::{self, Checked, Op},
    oracle::{self, Exact, Expected},
};
use burn::tensor::{DType, Device, Tensor};
use burn_fused::{FusedError, ops::Execution};

mod dims;
mod errors;
mod laws;
mod lengths;
mod numbers;

/// Softmax along a dimension: the last, or the first of a matrix. The oracle of any other takes it
/// along the last.
#[derive(Debug, Clone, Copy)]
pub struct Softmax(pub isize);

/// Log-softmax, as [`Softmax`].
#[derive(Debug, Clone, Copy)]
pub struct LogSoftmax(pub isize);

/// The float types that `device` computes both in.
pub fn dtypes(device: &Device) -> Vec<DType> {
    op::dtypes::<Softmax>(device)
}

/// The transpose of a matrix of so many columns.
fn transposed(values: &[f64], columns: usize) -> Vec<f64> {
    let rows = values.len() / columns.max(1);
    (0..values.len()).map(|i| values[i % rows * columns + i / rows]).collect()
}

macro_rules! op {
    ($op:ident, $function:ident, $attempt:ident, $execution:ident) => {
        impl Op for $op {
            const NAME: &'static str = stringify!($function);
            const PARAMETERS: &'static [&'static str] = &[];
            const AXES: usize = 1;
            const EXPONENTIALS: bool = true;

            fn forward<const D: usize, const K: usize>(
                &self,
                x: Tensor<D>,
                _: Vec<Option<Tensor<K>>>,
            ) -> Tensor<D> {
                burn_fused::$function(x, self.0)
            }

            fn oracle(
                &self,
                x: &[f64],
                columns: usize,
                _: &[Option<&[f64]>],
                dy: &[f64],
                y: Option<&[f64]>,
            ) -> Expected {
                if self.0 != 0 {
                    return oracle::$function(x, columns, dy, y);
                }
                // Down the columns of a matrix: along the rows of its transpose.
                let rows = x.len() / columns.max(1);
                let turned = |values: &[f64]| transposed(values, columns);
                let y = y.map(turned);
                let expected = oracle::$function(&turned(x), rows, &turned(dy), y.as_deref());
                let back = |exact: Exact| Exact {
                    values: transposed(&exact.values, rows),
                    scales: transposed(&exact.scales, rows),
                };
                Expected { y: back(expected.y), dx: back(expected.dx), ..expected }
            }
        }

        impl Checked for $op {
            fn attempt<const D: usize, const K: usize>(
                &self,
                x: Tensor<D>,
                _: Vec<Option<Tensor<K>>>,
            ) -> Result<Tensor<D>, FusedError> {
                burn_fused::$attempt(x, self.0)
            }

            fn execution<const D: usize, const K: usize>(
                &self,
                x: &Tensor<D>,
                _: &[Option<Tensor<K>>],
            ) -> Result<Execution, FusedError> {
                burn_fused::$execution(x, self.0)
            }
        }
    };
}

op!(Softmax, softmax, try_softmax, softmax_execution);
op!(LogSoftmax, log_softmax, try_log_softmax, log_softmax_execution);
