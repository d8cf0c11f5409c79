use super::{bools, cast, log_composed, narrow, row_mean, sum, widen};
use crate::ops::{
    Norm, NormGradients, NormOutput, NormSpec, NormUpstream, NormWanted, OptionalTensor,
    accumulator, matrix,
};
use burn::{
    backend::{Backend, TensorMetadata, tensor::FloatTensor},
    tensor::{FloatDType, Shape},
};

pub(crate) fn norm_forward<B: Backend>(
    x: FloatTensor<B>,
    gamma: OptionalTensor<B>,
    beta: OptionalTensor<B>,
    spec: NormSpec,
) -> NormOutput<B> {
    let NormSpec { norm, axes, epsilon, .. } = spec;
    log_composed::<B>(norm.name(), &x.device(), x.dtype());
    let (shape, acc) = (x.shape(), accumulator(x.dtype()));
    let [rows, columns] = matrix(&shape, axes);
    if rows == 0 {
        let x = cast::<B>(x, spec.dtype);
        let shape = Shape::new([norm.statistics(), 0]);
        let statistics = B::float_zeros(shape, &x.device(), acc);
        return NormOutput { y: x, statistics };
    }
    let x = widen::<B>(x, acc, [rows, columns]);
    let scale = scale::<B>(x.clone(), acc);
    let x = B::float_mul(x, scale.clone());
    let (centered, means) = match norm {
        Norm::Rms => (x, vec![]),
        Norm::Layer => {
            let near = near_mean::<B>(x.clone(), acc);
            let x = B::float_sub(x, near.clone());
            let rest = row_mean::<B>(x.clone());
            (B::float_sub(x, rest.clone()), vec![near, rest])
        }
    };
    let mean_square = row_mean::<B>(B::float_mul(centered.clone(), centered.clone()));
    let squared_scale = B::float_mul(scale.clone(), scale.clone());
    let scaled_epsilon = B::float_mul_scalar(squared_scale, epsilon.into());
    let square = B::float_add(mean_square, scaled_epsilon);
    // Of equal large values both are zero: x̂ is too, whatever it is multiplied by.
    let zero = B::float_equal_elem(square.clone(), 0.into(), bools::<B>(&square.device()));
    let of_equal = |value: f64, tensor| match epsilon > 0.0 {
        true => B::float_mask_fill(tensor, zero.clone(), value.into()),
        false => tensor,
    };
    let inverse_root = B::float_recip(B::float_sqrt(square));
    let y = B::float_mul(centered, of_equal(1.0, inverse_root.clone()));
    let parameters = spec.heads(&shape) * columns;
    let mut y = by_parameters::<B>(y, parameters);
    if let OptionalTensor::Some(gamma) = gamma {
        y = B::float_mul(y, factor::<B>(gamma, acc, parameters, spec));
    }
    if let OptionalTensor::Some(beta) = beta {
        y = B::float_add(y, widen::<B>(beta, acc, [1, parameters]));
    }
    let means = means.into_iter().map(|mean| B::float_div(mean, scale.clone()));
    let inverse_root = B::float_mul(inverse_root, scale.clone());
    let inverse_root = of_equal(epsilon.sqrt().recip(), inverse_root);
    let statistics = [inverse_root].into_iter().chain(means);
    let flat = statistics.map(|tensor| B::float_reshape(tensor, Shape::new([1, rows])));
    NormOutput {
        y: narrow::<B>(y, spec.dtype.into(), shape),
        statistics: B::float_cat(flat.collect(), 0),
    }
}

/// A matrix's rows side by side whose parameters, so many elements, are.
fn by_parameters<B: Backend>(matrix: FloatTensor<B>, parameters: usize) -> FloatTensor<B> {
    let elements = matrix.shape().num_elements();
    B::float_reshape(matrix, Shape::new([elements / parameters, parameters]))
}

/// What gamma multiplies by.
fn factor<B: Backend>(
    gamma: FloatTensor<B>,
    accumulator: FloatDType,
    elements: usize,
    spec: NormSpec,
) -> FloatTensor<B> {
    let gamma = widen::<B>(gamma, accumulator, [1, elements]);
    if spec.zero_centered_gamma { B::float_add_scalar(gamma, 1.0.into()) } else { gamma }
}

/// The mean of each row but for its rounding; its first value where that may as well be the mean, which of rows
/// of one value it is, to the bit.
fn near_mean<B: Backend>(x: FloatTensor<B>, accumulator: FloatDType) -> FloatTensor<B> {
    let part = 2f64.powi(if accumulator == FloatDType::F64 { -49 } else { -20 });
    let rows = x.shape()[0];
    let first = B::float_slice(x.clone(), &[(0..rows).into(), (0..1).into()]);
    let mean = row_mean::<B>(x);
    let distance = B::float_abs(B::float_sub(first.clone(), mean.clone()));
    let rounding = B::float_mul_scalar(B::float_abs(mean.clone()), part.into());
    let close = B::float_lower_equal(distance, rounding, bools::<B>(&mean.device()));
    B::float_mask_where(mean, close, first)
}

/// What each row is multiplied by: 1, or a power of two where squares might leave the range.
fn scale<B: Backend>(x: FloatTensor<B>, accumulator: FloatDType) -> FloatTensor<B> {
    let (most, small) = match accumulator {
        FloatDType::F64 => (2f64.powi(480), 2f64.powi(-560)),
        _ => (2f64.powi(48), 2f64.powi(-80)),
    };
    let (device, [rows, _]) = (x.device(), x.shape().dims());
    let ones = B::float_ones(Shape::new([rows, 1]), &device, accumulator);
    let largest = B::float_max_abs_dim(x, 1);
    let large = B::float_greater_elem(largest, most.into(), bools::<B>(&device));
    B::float_mask_fill(ones, large, small.into())
}

pub(crate) fn norm_backward<B: Backend>(
    x: FloatTensor<B>,
    gamma: OptionalTensor<B>,
    statistics: FloatTensor<B>,
    upstream: NormUpstream<B>,
    spec: NormSpec,
    wanted: NormWanted,
) -> NormGradients<B> {
    let NormSpec { norm, axes, .. } = spec;
    let (shape, dtype, acc) = (x.shape(), x.dtype(), accumulator(x.dtype()));
    let [rows, columns] = matrix(&shape, axes);
    let row = spec.parameter(&shape);
    let parameters = spec.heads(&shape) * columns;
    let gamma = gamma.into_option();
    let gamma_dtype = gamma.as_ref().filter(|_| wanted.gamma).map(|gamma| gamma.dtype());
    if rows == 0 {
        let device = x.device();
        let zeros = |dtype| B::float_zeros(row.clone(), &device, FloatDType::from(dtype));
        return NormGradients {
            gamma: gamma_dtype.map(zeros).into(),
            beta: wanted.beta.map(zeros).into(),
            x: wanted.x.then_some(x).into(),
        };
    }
    let statistic = |i: usize| {
        let one = B::float_slice(statistics.clone(), &[(i..i + 1).into(), (0..rows).into()]);
        B::float_reshape(one, Shape::new([rows, 1]))
    };
    let mut normalized = widen::<B>(x, acc, [rows, columns]);
    for i in 1..norm.statistics() {
        normalized = B::float_sub(normalized, statistic(i));
    }
    let inverse_root = statistic(0);
    let normalized = B::float_mul(normalized, inverse_root.clone());
    let grad = widen::<B>(upstream.y, acc, [rows, columns]);
    let gamma_grad = gamma_dtype.map(|dtype| {
        let products = B::float_mul(grad.clone(), normalized.clone());
        let products = by_parameters::<B>(products, parameters);
        narrow::<B>(sum::<B>(products, 0), dtype, row.clone())
    });
    let beta_grad = wanted.beta.map(|dtype| {
        let grad = by_parameters::<B>(grad.clone(), parameters);
        narrow::<B>(sum::<B>(grad, 0), dtype, row.clone())
    });
    let x_grad = wanted.x.then(|| {
        let scaled = match gamma {
            Some(gamma) => {
                let grad = by_parameters::<B>(grad, parameters);
                let scaled = B::float_mul(grad, factor::<B>(gamma, acc, parameters, spec));
                B::float_reshape(scaled, Shape::new([rows, columns]))
            }
            None => grad,
        };
        let mean = row_mean::<B>(B::float_mul(scaled.clone(), normalized.clone()));
        let mut inner = B::float_sub(scaled.clone(), B::float_mul(normalized, mean));
        if norm == Norm::Layer {
            inner = B::float_sub(inner, row_mean::<B>(scaled));
        }
        let mut gradient = B::float_mul(inner, inverse_root);
        if let OptionalTensor::Some(elsewhere) = upstream.x {
            gradient = B::float_add(gradient, widen::<B>(elsewhere, acc, [rows, columns]));
        }
        narrow::<B>(gradient, dtype, shape)
    });
    NormGradients { x: x_grad.into(), gamma: gamma_grad.into(), beta: beta_grad.into() }
}
