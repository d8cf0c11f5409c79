//! Rows along any dimension. The oracle takes them along the last, so what a device returned is
//! moved there on the host; the call that is tested has them where they are.

use super::{LogSoftmax, Softmax};
use crate::{
    compare::Report,
    op::{Data, Op, Outcome, differentiate},
    random::Random,
    values::Values,
};
use burn::tensor::{DType, Device};

mod graph;
mod layouts;
mod rows;
mod sizes;

/// Softmax or log-softmax, of which the dimension is chosen.
trait Form: Op {
    fn along(dim: isize) -> Self;
}

impl Form for Softmax {
    fn along(dim: isize) -> Self {
        Self(dim)
    }
}

impl Form for LogSoftmax {
    fn along(dim: isize) -> Self {
        Self(dim)
    }
}

/// Inputs whose rows lie along `dim`.
#[derive(Debug, Clone)]
struct Case {
    x: Values,
    dy: Values,
    dim: usize,
}

impl Case {
    /// Values of some size, so that a row's largest stand out.
    fn random(shape: &[usize], dim: usize, dtype: DType, random: &mut Random) -> Self {
        let x = Values::of(shape, dtype, |_| 3.0 * random.normal());
        Self { x, dy: Values::normal(shape, dtype, random), dim }
    }

    /// A run with `dim` counted from the start, or from the end.
    fn run<F: Form>(&self, from_the_end: bool, device: &Device) -> Outcome {
        let rank = self.x.shape.len();
        let dim = self.dim as isize - if from_the_end { rank as isize } else { 0 };
        macro_rules! ranks {
            ($($d:literal),+) => {
                match rank {
                    $($d => {
                        let (x, dy) = (self.x.tensor::<$d>(device), self.dy.tensor(device));
                        differentiate::<F, $d, 1>(F::along(dim), x, vec![], dy)
                    })+
                    other => panic!("no such rank in this test: {other}"),
                }
            };
        }
        ranks!(1, 2, 3, 4)
    }

    /// Compares a run with the oracle.
    fn check<F: Form>(&self, outcome: &Outcome, report: &mut Report, case: &str) {
        let [x, dy] = [&self.x, &self.dy].map(|values| values.with_last(self.dim));
        let data = Data { x, dy, parameters: vec![], axes: 1 };
        let case = format!("along {} of {:?} {case}", self.dim, self.x.shape);
        data.check(F::along(-1), &self.moved(outcome), report, &case);
    }

    /// An outcome with the rows moved to the last dimension.
    fn moved(&self, outcome: &Outcome) -> Outcome {
        let moved = |data| Values::returned(data).with_last(self.dim).data();
        Outcome { y: moved(&outcome.y), dx: outcome.dx.as_ref().map(moved), parameters: vec![] }
    }
}

/// Tests of both forms.
macro_rules! both {
    ($($test:ident),+ $(,)?) => {
        mod plain {
            $(#[test]
            fn $test() {
                super::$test::<crate::softmax::Softmax>();
            })+
        }

        mod log {
            $(#[test]
            fn $test() {
                super::$test::<crate::softmax::LogSoftmax>();
            })+
        }
    };
}
use both;
