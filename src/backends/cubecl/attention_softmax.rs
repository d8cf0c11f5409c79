use super::{
    element, empty_beside,
    layout::{Reading, matrix, readable},
    softmax::{extent, input, input_and_output, reading, types},
    stored_as, zeros_beside,
};
use crate::{
    kernels::{
        Hardware, column_sum, norm,
        softmax::{
            Backward,
            attention::{self, Attention},
        },
        vector_width,
    },
    ops::{
        AttentionSoftmaxGradients, AttentionSoftmaxOps, AttentionSoftmaxOptions,
        AttentionSoftmaxWanted, OptionalBoolTensor, OptionalTensor, accumulator,
    },
};
use burn::{
    backend::{
        TensorMetadata,
        ops::{BoolTensorOps, FloatTensorOps},
        tensor::FloatTensor,
    },
    tensor::{DType, Shape},
};
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};

impl AttentionSoftmaxOps for CubeBackend {
    fn attention_softmax_forward(
        x: FloatTensor<Self>,
        mask: OptionalBoolTensor<Self>,
        bias: OptionalTensor<Self>,
        options: AttentionSoftmaxOptions,
    ) -> FloatTensor<Self> {
        let shape = x.shape();
        if shape.num_elements() == 0 {
            return x;
        }
        let (client, dtype, dim) = (x.client.clone(), x.dtype, shape.num_dims() - 1);
        let extent = extent(&x, dim);
        let (mask, bias) = (mask.into_option(), bias.into_option());
        let types = attention::Types {
            x: stored_as(dtype, extent.hardware),
            mask: element(mask.as_ref().map_or(DType::U32, |mask| mask.dtype)),
            bias: stored_as(bias.as_ref().map_or(dtype, |bias| bias.dtype), extent.hardware),
            accumulator: element(accumulator(dtype).into()),
        };
        let reading = reading(&x, dim, extent);
        let spread = |tensor, expand: fn(CubeTensor, Shape) -> CubeTensor| {
            matrix(spread(tensor, &shape, reading, expand), dim, reading)
        };
        let mask = mask.map(|mask| spread(mask, Self::bool_expand));
        let bias = bias.map(|bias| spread(bias, Self::float_expand));
        let AttentionSoftmaxOptions { scale, causal } = options;
        let queries = if dim > 0 { shape[dim - 1] } else { 1 };
        let (x, output, y) = input_and_output(x, dim, extent);
        Attention { extent, types, scale, causal, queries, x, mask, bias, y }.launch(&client);
        output
    }

    fn attention_softmax_backward(
        y: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        scale: f64,
        wanted: AttentionSoftmaxWanted,
    ) -> AttentionSoftmaxGradients<Self> {
        assert_eq!(grad.shape(), y.shape(), "the gradient has the output's shape");
        let Some((dtype, shape)) = wanted.bias else {
            let x = wanted.x.then(|| backward(y, grad, scale));
            return AttentionSoftmaxGradients { x: x.into(), bias: OptionalTensor::None };
        };
        // In the accumulator, as many may be added.
        let acc = accumulator(y.dtype);
        let (of_bias, x) = if y.dtype == acc.into() {
            let of_scores = backward(y, grad, 1.0);
            let scaled = || Self::float_mul_scalar(of_scores.clone(), scale.into());
            let x = wanted.x.then(|| if scale == 1.0 { of_scores.clone() } else { scaled() });
            (of_scores, x)
        } else {
            let of_all = |tensor: &CubeTensor| Self::float_cast(tensor.clone(), acc);
            let of_scores = backward(of_all(&y), of_all(&grad), 1.0);
            (of_scores, wanted.x.then(|| backward(y, grad, scale)))
        };
        let bias = Some(summed(of_bias, dtype, shape));
        AttentionSoftmaxGradients { x: x.into(), bias: bias.into() }
    }
}

fn backward(y: CubeTensor, grad: CubeTensor, scale: f64) -> CubeTensor {
    if y.shape().num_elements() == 0 {
        return y;
    }
    let (client, dim) = (y.client.clone(), y.rank() - 1);
    let extent = extent(&y, dim);
    let types = types(y.dtype, extent.hardware);
    let (dy, output, dx) = input_and_output(grad, dim, extent);
    let y = input(y, dim, extent);
    Backward { extent, types, log: false, dy, y, dx }.launch_scaled(scale, &client);
    output
}

/// The sums over those dimensions that are 1 in `shape`, in a fixed order.
fn summed(gradient: CubeTensor, dtype: DType, shape: Shape) -> CubeTensor {
    let of_all = gradient.shape();
    if of_all == shape && gradient.dtype == dtype {
        return gradient;
    }
    let sum = empty_beside(&gradient, shape.clone(), dtype);
    if shape.num_elements() == 0 {
        return sum;
    }
    let (added, kept): (Vec<_>, Vec<_>) =
        (0..shape.num_dims()).partition(|dim| shape[*dim] != of_all[*dim]);
    let groups: usize = added.iter().map(|dim| of_all[*dim]).product();
    if groups == 0 {
        return zeros_beside(&gradient, shape, dtype);
    }
    let (columns, client) = (shape.num_elements(), gradient.client.clone());
    let (hardware, size) = (Hardware::of(&client), gradient.dtype.size());
    let widths = client.io_optimized_vector_sizes(size);
    let width = vector_width(columns, size, widths, hardware);
    // Rows of partials are whole vectors.
    let width = if columns.is_multiple_of(width) { width } else { 1 };
    let order: Vec<usize> = added.into_iter().chain(kept).collect();
    let partials = into_contiguous(CubeBackend::float_permute(gradient, &order));
    column_sum(
        &client,
        (partials.handle, stored_as(partials.dtype, hardware)),
        [Some((sum.handle.clone(), stored_as(dtype, hardware))), None],
        groups,
        norm::Extent { rows: groups, columns, heads: 1, width, hardware },
    );
    sum
}

/// A tensor as large as the scores, of which nothing is copied but a last dimension of 1.
fn spread(
    tensor: CubeTensor,
    shape: &Shape,
    reading: Reading,
    expand: fn(CubeTensor, Shape) -> CubeTensor,
) -> CubeTensor {
    let last = shape.num_dims() - 1;
    let mut own = tensor.shape();
    own[last] = shape[last];
    let rows = readable(expand(tensor, own), reading);
    expand(rows, shape.clone())
}
