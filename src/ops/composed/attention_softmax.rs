use super::{bools, cast, log_composed, sum};
use crate::ops::{
    AttentionSoftmaxGradients, AttentionSoftmaxOptions, AttentionSoftmaxWanted, OptionalBoolTensor,
    OptionalTensor, accumulator,
};
use burn::{
    backend::{
        Backend, TensorMetadata,
        tensor::{BoolTensor, Device, FloatTensor},
    },
    tensor::{DType, IntDType, Shape},
};

pub(crate) fn attention_softmax<B: Backend>(
    x: FloatTensor<B>,
    mask: OptionalBoolTensor<B>,
    bias: OptionalTensor<B>,
    options: AttentionSoftmaxOptions,
) -> FloatTensor<B> {
    let (shape, dtype, device) = (x.shape(), x.dtype(), x.device());
    log_composed::<B>("attention_softmax", &device, dtype);
    if shape.num_elements() == 0 {
        return x;
    }
    let AttentionSoftmaxOptions { scale, causal } = options;
    let (acc, dim) = (accumulator(dtype), shape.num_dims() - 1);
    let mut scores = cast::<B>(x, acc);
    if scale != 1.0 {
        scores = B::float_mul_scalar(scores, scale.into());
    }
    if let Some(bias) = bias.into_option() {
        scores = B::float_add(scores, B::float_expand(cast::<B>(bias, acc), shape.clone()));
    }
    let hidden = causal.map(|offset| hidden::<B>(&shape, offset, &device));
    for mask in [mask.into_option(), hidden].into_iter().flatten() {
        let mask = B::bool_expand(mask, shape.clone());
        scores = B::float_mask_fill(scores, mask, f64::NEG_INFINITY.into());
    }
    // Less which −∞ is not NaN.
    let least = if dtype == DType::F64 { f64::MIN } else { f32::MIN.into() };
    let largest = B::float_max_dim(scores.clone(), dim);
    let none = B::float_lower_elem(largest.clone(), least.into(), bools::<B>(&device));
    let largest = B::float_mask_fill(largest, none.clone(), least.into());
    let exponentials = B::float_exp(B::float_sub(scores, largest));
    let total = B::float_mask_fill(sum::<B>(exponentials.clone(), dim), none, 1.0.into());
    cast::<B>(B::float_div(exponentials, total), dtype.into())
}

pub(crate) fn attention_softmax_backward<B: Backend>(
    y: FloatTensor<B>,
    grad: FloatTensor<B>,
    scale: f64,
    wanted: AttentionSoftmaxWanted,
) -> AttentionSoftmaxGradients<B> {
    let (dtype, acc, device) = (y.dtype(), accumulator(y.dtype()), y.device());
    let dim = y.shape().num_dims() - 1;
    if y.shape().num_elements() == 0 {
        let bias = wanted.bias.map(|(dtype, shape)| B::float_zeros(shape, &device, dtype.into()));
        return AttentionSoftmaxGradients { x: wanted.x.then_some(y).into(), bias: bias.into() };
    }
    let (y, grad) = (cast::<B>(y, acc), cast::<B>(grad, acc));
    let dot = sum::<B>(B::float_mul(grad.clone(), y.clone()), dim);
    let gradient = B::float_mul(y, B::float_sub(grad, dot));
    let bias = wanted.bias.map(|(dtype, shape)| {
        let of_dims = |gradient, dim| {
            if shape[dim] == 1 { sum::<B>(gradient, dim) } else { gradient }
        };
        cast::<B>((0..shape.num_dims()).fold(gradient.clone(), of_dims), dtype.into())
    });
    let x = wanted.x.then(|| cast::<B>(B::float_mul_scalar(gradient, scale.into()), dtype.into()));
    AttentionSoftmaxGradients { x: x.into(), bias: bias.into() }
}

/// Keys that queries do not see: `[queries, keys]`, after dimensions of 1.
fn hidden<B: Backend>(shape: &Shape, offset: usize, device: &Device<B>) -> BoolTensor<B> {
    let rank = shape.num_dims();
    let (keys, queries) = (shape[rank - 1], if rank > 1 { shape[rank - 2] } else { 1 });
    let numbers = |to: usize, from: usize, size: [usize; 2]| {
        let numbers = B::int_arange(from as i64..to as i64, device, IntDType::I64);
        B::int_expand(B::int_reshape(numbers, Shape::new(size)), Shape::new([queries, keys]))
    };
    let key = numbers(keys, 0, [1, keys]);
    let last = numbers(offset + queries, offset, [queries, 1]);
    let hidden = B::int_greater(key, last, bools::<B>(device));
    let mut leading = vec![1; rank.saturating_sub(2)];
    leading.extend(if rank > 1 { vec![queries, keys] } else { vec![keys] });
    B::bool_reshape(hidden, Shape::from(leading))
}
