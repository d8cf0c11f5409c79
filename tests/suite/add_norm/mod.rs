//! A residual added and the sum normalised in one call: two outputs, either of which may be used alone.

use crate::{
    compare::{Kind, Verdict, compare, same_bits},
    deliver::deliver,
    layer_norm::LayerNorm,
    op::{Data, Op, has_type},
    oracle::{Exact, magnitude},
    random::Random,
    rms_norm::RmsNorm,
    values::{Values, round},
};
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_fused::FusedError;

mod buffers;
mod errors;
mod graph;
mod laws;
mod modules;
mod numbers;

/// The norm of a sum, and the sum.
pub type Outputs<const D: usize> = (Tensor<D>, Tensor<D>);

/// An op that can be had of a sum.
pub trait AddNorm: Op {
    const ADD: &'static str;

    fn try_add<const D: usize, const K: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
        parameters: Vec<Option<Tensor<K>>>,
    ) -> Result<Outputs<D>, FusedError>;

    /// The function that panics.
    fn add<const D: usize, const K: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
        parameters: Vec<Option<Tensor<K>>>,
    ) -> Outputs<D>;
}

impl AddNorm for RmsNorm {
    const ADD: &'static str = "add_rms_norm";

    fn try_add<const D: usize, const K: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
        mut parameters: Vec<Option<Tensor<K>>>,
    ) -> Result<Outputs<D>, FusedError> {
        burn_fused::try_add_rms_norm(x, residual, parameters.remove(0), self.0)
    }

    fn add<const D: usize, const K: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
        mut parameters: Vec<Option<Tensor<K>>>,
    ) -> Outputs<D> {
        burn_fused::add_rms_norm(x, residual, parameters.remove(0), self.0)
    }
}

impl AddNorm for LayerNorm {
    const ADD: &'static str = "add_layer_norm";

    fn try_add<const D: usize, const K: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
        mut parameters: Vec<Option<Tensor<K>>>,
    ) -> Result<Outputs<D>, FusedError> {
        let (beta, gamma) = (parameters.remove(1), parameters.remove(0));
        burn_fused::try_add_layer_norm(x, residual, gamma, beta, self.0)
    }

    fn add<const D: usize, const K: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
        mut parameters: Vec<Option<Tensor<K>>>,
    ) -> Outputs<D> {
        let (beta, gamma) = (parameters.remove(1), parameters.remove(0));
        burn_fused::add_layer_norm(x, residual, gamma, beta, self.0)
    }
}

/// Tests of both ops, by functions that take one.
macro_rules! both {
    ($($test:ident)+) => {
        $(mod $test {
            #[test]
            fn rms_norm() {
                super::$test(crate::rms_norm::RmsNorm::default());
            }

            #[test]
            fn layer_norm() {
                super::$test(crate::layer_norm::LayerNorm::default());
            }
        })+
    };
}
pub(crate) use both;

/// The inputs of a run: those of the op, the residual and the gradient of the sum.
#[derive(Debug, Clone)]
pub struct Sums {
    pub data: Data,
    pub residual: Values,
    pub dsum: Values,
}

/// The outputs that a loss is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Used {
    Norm,
    Sum,
    Both,
}

pub const EVERY_USE: [Used; 3] = [Used::Norm, Used::Sum, Used::Both];

/// What a run gave.
#[derive(Debug, Clone)]
pub struct Found {
    pub y: TensorData,
    pub sum: TensorData,
    /// Those of x, the residual and the parameters that there are.
    pub gradients: Vec<Option<TensorData>>,
}

impl Sums {
    pub fn random<O: Op>(
        shape: &[usize],
        axes: usize,
        dtype: DType,
        parameters: Option<DType>,
        random: &mut Random,
    ) -> Self {
        let data = Data::random::<O>(shape, axes, dtype, parameters, random);
        let [residual, dsum] = [(); 2].map(|()| Values::normal(shape, dtype, random));
        Self { data, residual, dsum }
    }

    /// The op's inputs, with the sum for x.
    fn of_sum(&self) -> Data {
        let (x, residual) = (&self.data.x, &self.residual);
        let sum = |i: usize| round(x.data[i] + residual.data[i], x.dtype);
        Data { x: Values::of(&x.shape, x.dtype, sum), ..self.data.clone() }
    }

    /// Runs with those leaves tracked whose bits in `tracked` are set: x the lowest, the residual next.
    pub fn run<O: AddNorm>(&self, op: O, used: Used, tracked: usize, device: &Device) -> Found {
        self.run_by(used, tracked, device, |x, residual, parameters| {
            op.add(x, residual, parameters)
        })
    }

    /// The same by Burn's `+` and the op.
    pub fn run_apart<O: Op>(&self, op: O, used: Used, tracked: usize, device: &Device) -> Found {
        self.run_by(used, tracked, device, |x, residual, parameters| {
            let sum = x + residual;
            (op.forward(sum.clone(), parameters), sum)
        })
    }

    fn run_by(
        &self,
        used: Used,
        tracked: usize,
        device: &Device,
        call: impl FnOnce(Tensor<2>, Tensor<2>, Vec<Option<Tensor<1>>>) -> Outputs<2>,
    ) -> Found {
        let tracks = |leaf: usize| tracked & (1 << leaf) != 0;
        let device = device.clone().autodiff();
        let leaf = |i, values: &Values| values.tensor::<2>(&device).set_require_grad(tracks(i));
        let (x, residual) = (leaf(0, &self.data.x), leaf(1, &self.residual));
        let parameters: Vec<Option<Tensor<1>>> = self
            .data
            .parameters(&device)
            .into_iter()
            .enumerate()
            .map(|(i, p)| Some(p?.set_require_grad(tracks(i + 2))))
            .collect();
        let outputs = call(x.clone(), residual.clone(), parameters.clone());
        let given = [&self.data.dy, &self.dsum].map(|values| values.tensor::<2>(&device));
        Found::new(outputs, used, given, [x, residual], parameters)
    }

    /// Compares a run of which `tracked` leaves were tracked with the oracle.
    pub fn check<O: AddNorm>(
        &self,
        op: O,
        used: Used,
        tracked: usize,
        found: &Found,
    ) -> Vec<Verdict> {
        let (data, dtype, accumulator) =
            (self.of_sum(), self.data.x.dtype, self.data.accumulator());
        let mut expected = data.expected(op, None);
        let columns = data.columns();
        let dsum = |i: usize| if used == Used::Norm { 0.0 } else { self.dsum.data[i] };
        for i in 0..expected.dx.values.len() {
            if used == Used::Sum {
                expected.dx.values[i] = 0.0;
                expected.dx.scales[i] = 0.0;
            }
            expected.dx.values[i] += dsum(i);
        }
        // The sum of both inherits the errors of each.
        for (row, scales) in expected.dx.scales.chunks_mut(columns).enumerate() {
            let largest = magnitude((0..columns).map(|i| dsum(row * columns + i)));
            scales.iter_mut().for_each(|scale| *scale = scale.max(largest));
        }
        if used == Used::Sum {
            for of_parameter in &mut expected.parameters {
                of_parameter.values.fill(0.0);
            }
        }
        let sum = Exact { values: data.x.data.clone(), scales: vec![0.0; data.x.data.len()] };
        let mut verdicts = vec![
            compare("y", Kind::Row, &expected.y, &found.y, accumulator),
            has_type("y", &found.y, dtype),
            compare("sum", Kind::Row, &sum, &found.sum, accumulator),
            has_type("sum", &found.sum, dtype),
        ];
        let reached = |leaf: usize| match used {
            Used::Sum if leaf > 1 => tracked & 3 != 0,
            _ => true,
        };
        let expected = [&expected.dx, &expected.dx].into_iter().chain(&expected.parameters);
        let types = [dtype; 2].into_iter();
        let types = types.chain(self.data.parameters.iter().flatten().map(|p| p.dtype));
        for (leaf, ((expected, dtype), found)) in
            expected.zip(types).zip(&found.gradients).enumerate()
        {
            let kind = if leaf < 2 { Kind::Row } else { Kind::RowSum };
            let name = format!("gradient {leaf}");
            verdicts.push(match (tracked & (1 << leaf) != 0 && reached(leaf), found) {
                (true, Some(found)) => compare(&name, kind, expected, found, accumulator)
                    .and_then(|part| has_type(&name, found, dtype).and(Ok(part))),
                (false, None) => Ok(0.0),
                (true, None) => Err(format!("{name} is missing")),
                (false, Some(_)) => Err(format!("{name} was not asked for")),
            });
        }
        verdicts
    }
}

impl Found {
    /// The outputs of a call, and the gradients of `inputs` and `parameters` given those of the outputs.
    pub fn new<const D: usize, const K: usize>(
        (y, sum): Outputs<D>,
        used: Used,
        [dy, dsum]: [Tensor<D>; 2],
        inputs: [Tensor<D>; 2],
        parameters: Vec<Option<Tensor<K>>>,
    ) -> Self {
        let norm = (used != Used::Sum && y.is_tracked()).then(|| deliver(y.clone(), dy));
        let of_sum = (used != Used::Norm && sum.is_tracked()).then(|| deliver(sum.clone(), dsum));
        let loss = match (norm, of_sum) {
            (Some(norm), Some(sum)) => Some(norm + sum),
            (norm, sum) => norm.or(sum),
        };
        let gradients = loss.map(|loss| loss.backward());
        let of_inputs = inputs.iter().map(|leaf| leaf.grad(gradients.as_ref()?));
        let mut found: Vec<_> = of_inputs.map(|g| g.map(Tensor::into_data)).collect();
        let of_parameters = parameters.iter().flatten().map(|leaf| leaf.grad(gradients.as_ref()?));
        found.extend(of_parameters.map(|g| g.map(Tensor::into_data)));
        Self { y: y.into_data(), sum: sum.into_data(), gradients: found }
    }

    /// Whether all is the same bits.
    pub fn same_bits(&self, other: &Self) -> Vec<Verdict> {
        let mut verdicts =
            vec![same_bits("y", &self.y, &other.y), same_bits("sum", &self.sum, &other.sum)];
        for (leaf, pair) in self.gradients.iter().zip(&other.gradients).enumerate() {
            verdicts.push(match pair {
                (Some(own), Some(other)) => same_bits(&format!("gradient {leaf}"), own, other),
                (None, None) => Ok(0.0),
                _ => Err(format!("only one of two has gradient {leaf}")),
            });
        }
        verdicts
    }
}
