//! Cross-entropy of logits.

use crate::{
    compare::{Kind, Verdict, compare, same_bits},
    deliver::deliver,
    op::has_type,
    oracle::{self, Missing, Terms},
    random::Random,
    values::Values,
};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use burn_fused::{CrossEntropyOptions, cross_entropy};

mod errors;
mod graph;
mod inputs;
mod module;
mod numbers;

/// The inputs of a run.
#[derive(Debug, Clone)]
pub struct Inputs {
    pub logits: Values,
    pub targets: Vec<i64>,
    pub weights: Option<Values>,
    pub options: CrossEntropyOptions,
    /// Gradients of the losses.
    pub grads: Values,
}

/// What a run gave.
pub struct Found {
    pub losses: TensorData,
    pub dlogits: TensorData,
}

impl Inputs {
    /// Logits with a deviation of 3, any class each, weights from 0.5 to 1.5 in the type `weights`.
    pub fn random(
        [rows, classes]: [usize; 2],
        dtype: DType,
        weights: Option<DType>,
        options: CrossEntropyOptions,
        random: &mut Random,
    ) -> Self {
        let accumulator = if dtype == DType::F64 { dtype } else { DType::F32 };
        Self {
            logits: Values::of(&[rows, classes], dtype, |_| 3.0 * random.normal()),
            targets: (0..rows).map(|_| random.below(classes) as i64).collect(),
            weights: weights.map(|dtype| Values::of(&[classes], dtype, |_| 0.5 + random.uniform())),
            options,
            grads: Values::normal(&[rows], accumulator, random),
        }
    }

    pub fn targets(&self, device: &Device) -> Tensor<1, Int> {
        Tensor::from_data(TensorData::new(self.targets.clone(), [self.targets.len()]), device)
    }

    pub fn weights(&self, device: &Device) -> Option<Tensor<1>> {
        self.weights.as_ref().map(|weights| weights.tensor(device))
    }

    pub fn run(&self, device: &Device) -> Found {
        self.run_on(self.logits.tensor(device), self.targets(device), device)
    }

    /// A run with logits and targets as they lie.
    pub fn run_on(&self, logits: Tensor<2>, targets: Tensor<1, Int>, device: &Device) -> Found {
        let logits = logits.autodiff().require_grad();
        let losses = cross_entropy(logits.clone(), targets, self.weights(device), self.options);
        let gradients = deliver(losses.clone(), self.grads.tensor(device)).backward();
        let dlogits = logits.grad(&gradients).expect("they are tracked").into_data();
        Found { losses: losses.into_data(), dlogits }
    }

    pub fn check(&self, found: &Found) -> Vec<Verdict> {
        let columns = self.logits.shape[1];
        let class = |target: i64| match usize::try_from(target) {
            _ if self.options.ignore_index == Some(target) => Err(Missing::Ignored),
            Ok(class) if class < columns => Ok(class),
            _ => Err(Missing::NoSuchClass),
        };
        let terms = Terms {
            classes: self.targets.iter().map(|target| class(*target)).collect(),
            weights: self.weights.as_ref().map(|weights| weights.data.clone()),
            smoothing: self.options.label_smoothing,
        };
        let grads = &self.grads.data;
        let [losses, dlogits] = oracle::cross_entropy(&self.logits.data, columns, &terms, grads);
        let accumulator = self.grads.dtype;
        vec![
            compare("losses", Kind::Row, &losses, &found.losses, accumulator),
            has_type("losses", &found.losses, accumulator),
            compare("dlogits", Kind::Row, &dlogits, &found.dlogits, accumulator),
            has_type("dlogits", &found.dlogits, self.logits.dtype),
        ]
    }
}

impl Found {
    pub fn same_bits(&self, other: &Self) -> [Verdict; 2] {
        [
            same_bits("losses", &self.losses, &other.losses),
            same_bits("dlogits", &self.dlogits, &other.dlogits),
        ]
    }
}

impl std::fmt::Display for Inputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let weights = self.weights.as_ref().map(|weights| weights.dtype);
        let Self { logits, options, .. } = self;
        write!(f, "{:?} {:?}, weights {weights:?}, {options:?}", logits.shape, logits.dtype)
    }
}
