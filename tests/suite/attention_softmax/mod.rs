//! The softmax of attention scores.

use crate::{
    compare::{Kind, Verdict, compare, same_bits},
    deliver::deliver,
    device,
    op::has_type,
    oracle::{self, ColumnSums, Exact, Scores},
    random::Random,
    values::{Values, exact},
};
use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use burn_fused::{AttentionSoftmaxOptions, attention_softmax};

mod errors;
mod graph;
mod inputs;
mod numbers;

pub const PLAIN: AttentionSoftmaxOptions = AttentionSoftmaxOptions { scale: 1.0, causal: None };

/// The inputs of a run.
#[derive(Debug, Clone)]
pub struct Inputs {
    pub x: Values,
    pub mask: Option<Mask>,
    pub bias: Option<Values>,
    pub options: AttentionSoftmaxOptions,
    pub dy: Values,
}

#[derive(Debug, Clone)]
pub struct Mask {
    pub shape: Vec<usize>,
    pub data: Vec<bool>,
}

/// What a run gave.
pub struct Found {
    pub y: TensorData,
    pub dx: Option<TensorData>,
    pub dbias: Option<TensorData>,
}

impl Mask {
    /// Leaves out a third.
    pub fn random(shape: &[usize], random: &mut Random) -> Self {
        let len = shape.iter().product();
        let data = (0..len).map(|_| random.below(3) == 0).collect();
        Self { shape: shape.to_vec(), data }
    }

    pub fn tensor<const D: usize>(&self, device: &Device) -> Tensor<D, Bool> {
        Tensor::from_data(TensorData::new(self.data.clone(), self.shape.clone()), device)
    }
}

impl Inputs {
    /// Scores that are 4 apart when scaled, and all of their gradients.
    pub fn random(
        shape: &[usize],
        dtype: DType,
        options: AttentionSoftmaxOptions,
        random: &mut Random,
    ) -> Self {
        let deviation = if options.scale == 0.0 { 1.0 } else { 2.0 / options.scale };
        let x = Values::of(shape, dtype, |_| deviation * random.normal());
        let dy = Values::normal(shape, dtype, random);
        Self { x, mask: None, bias: None, options, dy }
    }

    pub fn with_mask(mut self, shape: &[usize], random: &mut Random) -> Self {
        self.mask = Some(Mask::random(shape, random));
        self
    }

    pub fn with_bias(mut self, shape: &[usize], dtype: DType, random: &mut Random) -> Self {
        self.bias = Some(Values::normal(shape, dtype, random));
        self
    }

    pub fn run<const D: usize>(&self, device: &Device) -> Found {
        let mask = self.mask.as_ref().map(|mask| mask.tensor(device));
        let bias = self.bias.as_ref().map(|bias| bias.tensor(device));
        self.run_on::<D>(self.x.tensor(device), mask, bias, device)
    }

    /// A run with inputs as they lie.
    pub fn run_on<const D: usize>(
        &self,
        x: Tensor<D>,
        mask: Option<Tensor<D, Bool>>,
        bias: Option<Tensor<D>>,
        device: &Device,
    ) -> Found {
        let x = x.autodiff().require_grad();
        let bias = bias.map(|bias| bias.autodiff().require_grad());
        let mask = mask.map(|mask| mask.autodiff());
        let y = attention_softmax(x.clone(), mask, bias.clone(), self.options);
        let gradients = deliver(y.clone(), self.dy.tensor(device)).backward();
        let of = |tensor: &Tensor<D>| tensor.grad(&gradients).map(Tensor::into_data);
        Found { dx: of(&x), dbias: bias.as_ref().and_then(of), y: y.into_data() }
    }

    pub fn check(&self, found: &Found) -> Vec<Verdict> {
        let acc = if self.x.dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let columns = *self.x.shape.last().unwrap();
        let (scale, y) = (self.options.scale, exact(&found.y));
        let [expected, gradient] =
            oracle::attention_softmax(&self.scores(), columns, &self.dy.data, &y);
        let mut verdicts = vec![
            compare("y", Kind::Row, &expected, &found.y, acc),
            has_type("y", &found.y, self.x.dtype),
        ];
        if let Some(dx) = &found.dx {
            let times = |values: &[f64]| values.iter().map(|v| v * scale).collect::<Vec<_>>();
            let scales = times(&gradient.scales).into_iter().map(f64::abs).collect();
            let expected = Exact { values: times(&gradient.values), scales };
            verdicts.push(compare("dx", Kind::Row, &expected, dx, acc));
            verdicts.push(has_type("dx", dx, self.x.dtype));
        }
        if let (Some(dbias), Some(bias)) = (&found.dbias, &self.bias) {
            let mut sums = ColumnSums::new(bias.data.len());
            for (i, (value, scale)) in gradient.values.iter().zip(&gradient.scales).enumerate() {
                sums.add_at(self.place(i, &bias.shape), *value, *scale);
            }
            verdicts.push(compare("dbias", Kind::RowSum, &sums.finish(), dbias, acc));
            verdicts.push(has_type("dbias", dbias, bias.dtype));
            assert_eq!(dbias.shape().to_vec(), bias.shape);
        }
        verdicts
    }

    fn scores(&self) -> Scores {
        let columns = *self.x.shape.last().unwrap();
        let queries = self.x.shape.iter().rev().nth(1).copied().unwrap_or(1);
        let value = |i: usize| {
            let bias = self.bias.as_ref().map_or(0.0, |bias| bias.data[self.place(i, &bias.shape)]);
            self.options.scale * self.x.data[i] + bias
        };
        let left_out = |i: usize| {
            let (column, query) = (i % columns, i / columns % queries);
            let hidden = self.options.causal.is_some_and(|offset| column > query + offset);
            hidden || self.mask.as_ref().is_some_and(|mask| mask.data[self.place(i, &mask.shape)])
        };
        let all = 0..self.x.data.len();
        // Twice half a unit in the last place, beside the bound. The oracle rounds those of f64 as well; of f32 they
        // are not rounded, but composed, and by Mesa, which takes what makes up for it to be zero.
        let composed = ["flex", "vulkan"].contains(&&*device::name());
        let rounding = match self.x.dtype {
            DType::F64 => 2f64.powi(-52) / 1e-14,
            DType::F32 if !composed => 0.0,
            _ => 2f64.powi(-23) / 1e-6,
        };
        let (values, left_out) = (all.clone().map(value), all.map(left_out));
        Scores { values: values.collect(), left_out: left_out.collect(), rounding }
    }

    /// Where in a tensor of `shape`, which broadcasts to that of the scores, is what belongs to their element `i`.
    fn place(&self, i: usize, shape: &[usize]) -> usize {
        let (mut rest, mut stride, mut place) = (i, 1, 0);
        for (size, own) in self.x.shape.iter().zip(shape).rev() {
            if *own != 1 {
                place += rest % size * stride;
            }
            rest /= size;
            stride *= own;
        }
        place
    }
}

impl Found {
    pub fn same_bits(&self, other: &Self) -> Vec<Verdict> {
        let mut verdicts = vec![same_bits("y", &self.y, &other.y)];
        for (name, own, others) in
            [("dx", &self.dx, &other.dx), ("dbias", &self.dbias, &other.dbias)]
        {
            match (own, others) {
                (Some(own), Some(other)) => verdicts.push(same_bits(name, own, other)),
                (None, None) => {}
                _ => verdicts.push(Err(format!("{name}: only one of two"))),
            }
        }
        verdicts
    }
}

impl std::fmt::Display for Inputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { x, options, .. } = self;
        let mask = self.mask.as_ref().map(|mask| &mask.shape);
        let bias = self.bias.as_ref().map(|bias| (&bias.shape, bias.dtype));
        write!(f, "{:?} {:?}, mask {mask:?}, bias {bias:?}, {options:?}", x.shape, x.dtype)
    }
}
