use super::{cast, log_composed, sum};
use crate::ops::{Softmax, accumulator};
use burn::backend::{Backend, TensorMetadata, tensor::FloatTensor};

pub(crate) fn softmax<B: Backend>(x: FloatTensor<B>, dim: usize, form: Softmax) -> FloatTensor<B> {
    log_composed::<B>(form.name(), &x.device(), x.dtype());
    if x.shape().num_elements() == 0 {
        return x;
    }
    let dtype = x.dtype();
    let x = cast::<B>(x, accumulator(dtype));
    let shifted = B::float_sub(x.clone(), B::float_max_dim(x, dim));
    let exponentials = B::float_exp(shifted.clone());
    let total = sum::<B>(exponentials.clone(), dim);
    let y = match form {
        Softmax::Plain => B::float_div(exponentials, total),
        Softmax::Log => B::float_sub(shifted, B::float_log(total)),
    };
    cast::<B>(y, dtype.into())
}

pub(crate) fn softmax_backward<B: Backend>(
    y: FloatTensor<B>,
    grad: FloatTensor<B>,
    dim: usize,
    form: Softmax,
) -> FloatTensor<B> {
    if y.shape().num_elements() == 0 {
        return y;
    }
    let dtype = y.dtype();
    let (y, grad) = (cast::<B>(y, accumulator(dtype)), cast::<B>(grad, accumulator(dtype)));
    let dx = match form {
        Softmax::Plain => {
            let dot = sum::<B>(B::float_mul(grad.clone(), y.clone()), dim);
            B::float_mul(y, B::float_sub(grad, dot))
        }
        Softmax::Log => {
            let total = sum::<B>(grad.clone(), dim);
            B::float_sub(grad, B::float_mul(B::float_exp(y), total))
        }
    };
    cast::<B>(dx, dtype.into())
}
