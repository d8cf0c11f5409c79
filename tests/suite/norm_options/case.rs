//! A call with options, its runs, and what the oracle says of each head by itself.

use crate::{
    compare::{Kind, Report, Verdict, compare, same_bits},
    deliver::deliver,
    device,
    op::has_type,
    oracle::{self, Exact, Expected},
    random::Random,
    values::Values,
};
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_fused::{NormOptions, layer_norm, rms_norm};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Norm {
    Rms,
    Layer,
}

/// A call on rows of `shape`'s last `axes` dimensions with parameters of its last `K`.
pub struct Case<const K: usize> {
    pub norm: Norm,
    pub x: Values,
    pub gamma: Option<Values>,
    pub beta: Option<Values>,
    pub dy: Values,
    pub options: NormOptions,
}

pub struct Outcome {
    pub y: TensorData,
    /// Of x, gamma and beta.
    pub gradients: [Option<TensorData>; 3],
}

const GRADIENTS: [&str; 3] = ["dx", "dgamma", "dbeta"];

impl<const K: usize> Case<K> {
    /// `types` are those of x, the output, and gamma and beta.
    pub fn random(
        norm: Norm,
        shape: [usize; 4],
        types: [DType; 3],
        options: NormOptions,
        random: &mut Random,
    ) -> Self {
        let [x, y, parameters] = types;
        let of = &shape[4 - K..];
        let center = if options.zero_centered_gamma { 0.0 } else { 1.0 };
        let beta = (norm == Norm::Layer).then(|| Values::normal(of, parameters, random));
        Self {
            norm,
            x: Values::normal(&shape, x, random),
            gamma: Some(Values::of(of, parameters, |_| center + 0.5 * random.normal())),
            beta,
            dy: Values::normal(&shape, y, random),
            options: NormOptions { dtype: Some(y.into()), ..options },
        }
    }

    fn forward(
        &self,
        x: Tensor<4>,
        gamma: Option<Tensor<K>>,
        beta: Option<Tensor<K>>,
    ) -> Tensor<4> {
        match self.norm {
            Norm::Rms => rms_norm(x, gamma, self.options),
            Norm::Layer => layer_norm(x, gamma, beta, self.options),
        }
    }

    /// Runs it both ways, everything tracked.
    pub fn run(&self, device: &Device) -> Outcome {
        self.run_tracked([true; 3], device)
    }

    /// As [`run`](Self::run), but what is to be tracked of x, gamma and beta.
    pub fn run_tracked(&self, tracked: [bool; 3], device: &Device) -> Outcome {
        let x = self.x.tensor(device);
        self.run_with(x, tracked, |x, gamma, beta| self.forward(x, gamma, beta))
    }

    /// As [`run`](Self::run), of a view of a tensor that lies in memory in another order.
    fn run_viewed(&self, device: &Device) -> Outcome {
        let x = self.x.tensor::<4>(device);
        // Times one is every float itself; the swapped dimensions are copied.
        let x = (x.swap_dims(0, 2) * 1.0).swap_dims(0, 2);
        self.run_with(x, [true; 3], |x, gamma, beta| self.forward(x, gamma, beta))
    }

    /// Runs `forward` and its gradients, given x as it lies.
    pub fn run_with(
        &self,
        x: Tensor<4>,
        tracked: [bool; 3],
        forward: impl FnOnce(Tensor<4>, Option<Tensor<K>>, Option<Tensor<K>>) -> Tensor<4>,
    ) -> Outcome {
        fn leaf<const D: usize>(tensor: Tensor<D>, tracked: bool) -> Tensor<D> {
            let tensor = tensor.autodiff();
            if tracked { tensor.require_grad() } else { tensor }
        }
        let device = x.device();
        let parameter = |values: &Option<Values>, tracked| {
            values.as_ref().map(|values| leaf(values.tensor::<K>(&device), tracked))
        };
        let (gamma, beta) = (parameter(&self.gamma, tracked[1]), parameter(&self.beta, tracked[2]));
        let x = leaf(x, tracked[0]);
        let y = forward(x.clone(), gamma.clone(), beta.clone());
        let gradients = deliver(y.clone(), self.dy.tensor(&device)).backward();
        let gradient = |p: &Option<Tensor<K>>| Some(p.as_ref()?.grad(&gradients)?.into_data());
        Outcome {
            gradients: [
                x.grad(&gradients).map(Tensor::into_data),
                gradient(&gamma),
                gradient(&beta),
            ],
            y: y.into_data(),
        }
    }

    /// The oracle's answer for each head by itself.
    fn expected(&self) -> Expected {
        let axes = self.options.axes.unwrap_or(K);
        let shape = &self.x.shape;
        let columns: usize = shape[4 - axes..].iter().product();
        let heads: usize = shape[4 - K..4 - axes].iter().product();
        let rows = self.x.data.len() / columns;
        let offset = if self.options.zero_centered_gamma { 1.0 } else { 0.0 };
        let part = |p: &Option<Values>, head: usize, absent: f64, offset: f64| match p {
            Some(p) => p.data[head * columns..(head + 1) * columns]
                .iter()
                .map(|value| value + offset)
                .collect(),
            None => vec![absent; columns],
        };
        let mut whole = Expected::default();
        for exact in [&mut whole.y, &mut whole.dx] {
            exact.values.resize(rows * columns, 0.0);
            exact.scales.resize(rows * columns, 0.0);
        }
        whole.parameters.resize_with(2, Exact::default);
        for head in 0..heads {
            let own: Vec<usize> = (head..rows).step_by(heads).collect();
            let pick = |from: &Values| -> Vec<f64> {
                let rows = own.iter().map(|row| &from.data[row * columns..(row + 1) * columns]);
                rows.flatten().copied().collect()
            };
            let (x, dy) = (pick(&self.x), pick(&self.dy));
            let gamma = part(&self.gamma, head, 1.0, offset);
            let found = match self.norm {
                Norm::Rms => oracle::rms_norm(&x, &gamma, &dy, self.options.epsilon),
                Norm::Layer => {
                    let beta = part(&self.beta, head, 0.0, 0.0);
                    oracle::layer_norm(&x, &gamma, &beta, &dy, self.options.epsilon)
                }
            };
            for (from, to) in [(&found.y, &mut whole.y), (&found.dx, &mut whole.dx)] {
                for (i, row) in own.iter().enumerate() {
                    let (from_row, to_row) = (i * columns, row * columns);
                    for (a, b) in [(&from.values, &mut to.values), (&from.scales, &mut to.scales)] {
                        b[to_row..to_row + columns]
                            .copy_from_slice(&a[from_row..from_row + columns]);
                    }
                }
            }
            for (found, whole) in found.parameters.iter().zip(&mut whole.parameters) {
                whole.values.extend(&found.values);
                whole.scales.extend(&found.scales);
            }
        }
        whole
    }

    pub fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        let expected = self.expected();
        let accumulator = if self.x.dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let mut verdicts = vec![
            compare("y", Kind::Row, &expected.y, &outcome.y, accumulator),
            has_type("y", &outcome.y, self.dy.dtype),
        ];
        let [dgamma, dbeta] = &expected.parameters[..] else { panic!("there are two") };
        let wanted = [Some(&self.x), self.gamma.as_ref(), self.beta.as_ref()];
        let expected = [(Kind::Row, &expected.dx), (Kind::RowSum, dgamma), (Kind::RowSum, dbeta)];
        for (i, (kind, expected)) in expected.into_iter().enumerate() {
            let name = GRADIENTS[i];
            match (&outcome.gradients[i], wanted[i]) {
                (Some(found), Some(of)) => {
                    verdicts.push(compare(name, kind, expected, found, accumulator));
                    verdicts.push(has_type(name, found, of.dtype));
                }
                (None, None) => {}
                _ => verdicts.push(Err(format!("{name} is there or not as it should not be"))),
            }
        }
        verdicts
    }

    pub fn name(&self) -> String {
        let parameters = self.gamma.as_ref().map(|p| (&p.shape, p.dtype));
        let Self { norm, x, options, .. } = self;
        format!("{norm:?} {:?} {:?}, gamma {parameters:?}, {options:?}", x.shape, x.dtype)
    }

    pub fn check(&self, device: &Device, report: &mut Report) {
        let outcome = self.run(device);
        report.add(self.name(), self.verdicts(&outcome));
        if device::keeps_bits() {
            let viewed = self.run_viewed(device);
            let mut verdicts = outcome.same_gradients(&viewed);
            verdicts.push(same_bits("y", &outcome.y, &viewed.y));
            report.add(format!("{} viewed", self.name()), verdicts);
        }
    }
}

impl Outcome {
    /// Whether gradients are the same bits, each of both or of none.
    pub fn same_gradients(&self, other: &Self) -> Vec<Verdict> {
        let pairs = GRADIENTS.iter().zip(self.gradients.iter().zip(&other.gradients));
        let verdicts = pairs.map(|(name, pair)| match pair {
            (Some(a), Some(b)) => same_bits(name, a, b),
            (None, None) => Ok(0.0),
            _ => Err(format!("only one of two has {name}")),
        });
        verdicts.collect()
    }
}
