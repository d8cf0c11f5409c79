//! An op under test, its inputs, and one run of it forwards and backwards.

use crate::{
    compare::{Kind, Report, Verdict, compare, same_bits},
    deliver::deliver,
    device,
    oracle::Expected,
    random::Random,
    values::{Values, exact},
};
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_fused::{FusedError, ops::Execution};
use std::fmt;

/// An op on rows: the last `K` dimensions of its input, which its parameters, if any, are shaped
/// like. Everything in `laws` holds for all of them.
pub trait Op: Copy + Send + Sync + 'static {
    const NAME: &'static str;
    const PARAMETERS: &'static [&'static str];
    /// The most trailing dimensions that a row can have.
    const AXES: usize;
    /// Whether it takes exponentials, which not every device has in every type.
    const EXPONENTIALS: bool = false;

    fn forward<const D: usize, const K: usize>(
        &self,
        x: Tensor<D>,
        parameters: Vec<Option<Tensor<K>>>,
    ) -> Tensor<D>;

    /// What it must give, `parameters` in the order of [`Op::PARAMETERS`], absent ones left out of
    /// the result. Where the backward pass starts from the output, and not from `x`, that is `y`, as
    /// the device rounded it, or the exact one where there is none.
    fn oracle(
        &self,
        x: &[f64],
        columns: usize,
        parameters: &[Option<&[f64]>],
        dy: &[f64],
        y: Option<&[f64]>,
    ) -> Expected;
}

/// The float types that `device` computes the op in.
pub fn dtypes<O: Op>(device: &Device) -> Vec<DType> {
    let mut dtypes = device::dtypes(device);
    if O::EXPONENTIALS && device::name() == "vulkan" {
        println!("skipped: WGSL has no exponential of F64");
        dtypes.retain(|dtype| *dtype != DType::F64);
    }
    dtypes
}

/// The other ways to call an op: with an error in place of a panic, and to ask what it would do.
pub trait Checked: Op {
    fn attempt<const D: usize, const K: usize>(
        &self,
        x: Tensor<D>,
        parameters: Vec<Option<Tensor<K>>>,
    ) -> Result<Tensor<D>, FusedError>;

    fn execution<const D: usize, const K: usize>(
        &self,
        x: &Tensor<D>,
        parameters: &[Option<Tensor<K>>],
    ) -> Result<Execution, FusedError>;
}

/// The inputs of a run.
#[derive(Debug, Clone)]
pub struct Data {
    pub x: Values,
    pub parameters: Vec<Option<Values>>,
    pub dy: Values,
    pub axes: usize,
}

/// What a run gave, in the bits that the device returned.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub y: TensorData,
    pub dx: Option<TensorData>,
    pub parameters: Vec<Option<TensorData>>,
}

impl Data {
    /// Rows of sizes from 1/8 to 8, parameters about 1, gradients of size 1.
    pub fn random<O: Op>(
        shape: &[usize],
        axes: usize,
        dtype: DType,
        parameters: Option<DType>,
        random: &mut Random,
    ) -> Self {
        let row = &shape[shape.len() - axes..];
        let columns = row.iter().product::<usize>().max(1);
        let mut size = 1.0;
        let x = Values::of(shape, dtype, |i| {
            if i % columns == 0 {
                size = 2f64.powi(random.below(7) as i32 - 3);
            }
            size * random.normal()
        });
        let parameter = |dtype: DType, random: &mut Random| {
            Values::of(row, dtype, |_| 1.0 + 0.5 * random.normal())
        };
        let parameters =
            O::PARAMETERS.iter().map(|_| parameters.map(|dtype| parameter(dtype, random)));
        let parameters = parameters.collect();
        Self { x, parameters, dy: Values::normal(shape, dtype, random), axes }
    }

    pub fn columns(&self) -> usize {
        self.x.shape[self.x.shape.len() - self.axes..].iter().product()
    }

    pub fn parameters<const K: usize>(&self, device: &Device) -> Vec<Option<Tensor<K>>> {
        self.parameters.iter().map(|p| p.as_ref().map(|p| p.tensor(device))).collect()
    }

    /// What `op` must give; `y` is what it gave (see [`Op::oracle`]).
    pub fn expected<O: Op>(&self, op: O, y: Option<&[f64]>) -> Expected {
        let parameters: Vec<_> =
            self.parameters.iter().map(|p| p.as_ref().map(|p| p.data.as_slice())).collect();
        op.oracle(&self.x.data, self.columns(), &parameters, &self.dy.data, y)
    }

    /// The sums' type: f64 for f64, f32 for all others.
    pub fn accumulator(&self) -> DType {
        if self.x.dtype == DType::F64 { DType::F64 } else { DType::F32 }
    }

    /// The rows in `order`, as a matrix.
    pub fn rows(&self, order: &[usize]) -> Self {
        let columns = self.columns();
        let pick = |from: &Values| {
            let rows = order.iter().map(|row| &from.data[row * columns..(row + 1) * columns]);
            Values::new(&[order.len(), columns], from.dtype, rows.flatten().copied().collect())
        };
        let parameters = self.parameters.iter().cloned();
        Self {
            x: pick(&self.x),
            dy: pick(&self.dy),
            parameters: parameters.map(|p| p.map(|p| p.reshaped(&[columns]))).collect(),
            axes: 1,
        }
    }

    /// Runs `op` forwards and backwards on `device`, everything tracked.
    pub fn run<O: Op>(&self, op: O, device: &Device) -> Outcome {
        macro_rules! ranks {
            ($(($d:literal, $k:literal)),+) => {
                match (self.x.shape.len(), self.axes) {
                    $(($d, $k) => self.run_ranked::<O, $d, $k>(op, device),)+
                    other => panic!("no such ranks in the suite: {other:?}"),
                }
            };
        }
        ranks!((1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2))
    }

    fn run_ranked<O: Op, const D: usize, const K: usize>(&self, op: O, device: &Device) -> Outcome {
        let (x, dy) = (self.x.tensor::<D>(device), self.dy.tensor(device));
        differentiate(op, x, self.parameters::<K>(device), dy)
    }

    /// Compares a run with the oracle.
    pub fn check<O: Op>(&self, op: O, outcome: &Outcome, report: &mut Report, case: &str) {
        report.add(format!("{} {self} {case}", O::NAME), self.verdicts(op, outcome));
    }

    fn verdicts<O: Op>(&self, op: O, outcome: &Outcome) -> Vec<Verdict> {
        let accumulator = self.accumulator();
        let y = exact(&outcome.y);
        let expected = self.expected(op, (y.len() == self.x.data.len()).then_some(&y));
        let present = |list: &[Option<TensorData>]| list.iter().flatten().cloned().collect();
        let found: Vec<TensorData> = present(&outcome.parameters);
        let wanted = self.parameters.iter().flatten().map(|p| p.dtype);
        let mut verdicts = vec![
            compare("y", Kind::Row, &expected.y, &outcome.y, accumulator),
            has_type("y", &outcome.y, self.x.dtype),
        ];
        match &outcome.dx {
            Some(dx) => {
                verdicts.push(compare("dx", Kind::Row, &expected.dx, dx, accumulator));
                verdicts.push(has_type("dx", dx, self.x.dtype));
            }
            None => verdicts.push(Err("dx is missing".into())),
        }
        if found.len() != expected.parameters.len() {
            verdicts.push(Err(format!("{} parameters have gradients", found.len())));
        }
        let names = O::PARAMETERS.iter().map(|name| format!("d{name}"));
        for (((name, expected), found), dtype) in
            names.zip(&expected.parameters).zip(&found).zip(wanted)
        {
            verdicts.push(compare(&name, Kind::RowSum, expected, found, accumulator));
            verdicts.push(has_type(&name, found, dtype));
        }
        verdicts
    }
}

/// Says that an output has another type than it should.
pub fn has_type(name: &str, found: &TensorData, expected: DType) -> Verdict {
    let found = found.dtype();
    if found == expected {
        Ok(0.0)
    } else {
        Err(format!("{name} is {found:?}, expected {expected:?}"))
    }
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = self.parameters.first().map(|p| p.as_ref().map(|p| p.dtype));
        write!(f, "{:?} {:?}, {} axes", self.x.shape, self.x.dtype, self.axes)?;
        match parameters {
            None => Ok(()),
            Some(None) => write!(f, ", no parameters"),
            Some(Some(dtype)) => write!(f, ", parameters {dtype:?}"),
        }
    }
}

/// Runs `op` on tensors as they lie, all of them tracked, with `dy` as the gradient of its output.
pub fn differentiate<O: Op, const D: usize, const K: usize>(
    op: O,
    x: Tensor<D>,
    parameters: Vec<Option<Tensor<K>>>,
    dy: Tensor<D>,
) -> Outcome {
    let x = x.autodiff().require_grad();
    let parameters: Vec<_> =
        parameters.into_iter().map(|p| p.map(|p| p.autodiff().require_grad())).collect();
    let y = op.forward(x.clone(), parameters.clone());
    let gradients = deliver(y.clone(), dy).backward();
    let gradient = |p: &Option<Tensor<K>>| p.as_ref()?.grad(&gradients).map(Tensor::into_data);
    Outcome {
        dx: x.grad(&gradients).map(Tensor::into_data),
        parameters: parameters.iter().map(gradient).collect(),
        y: y.into_data(),
    }
}

impl Outcome {
    /// Whether all outputs are the same bits.
    pub fn same_bits<O: Op>(&self, other: &Self) -> Vec<Verdict> {
        let both = |name: &str, pair: (&Option<TensorData>, &Option<TensorData>)| match pair {
            (Some(first), Some(second)) => same_bits(name, first, second),
            (None, None) => Ok(0.0),
            _ => Err(format!("only one of two has {name}")),
        };
        let parameters = O::PARAMETERS.iter().zip(self.parameters.iter().zip(&other.parameters));
        let mut verdicts =
            vec![same_bits("y", &self.y, &other.y), both("dx", (&self.dx, &other.dx))];
        verdicts.extend(parameters.map(|(name, pair)| both(&format!("d{name}"), pair)));
        verdicts
    }
}
