use super::{
    element,
    layout::{matrix, readable, readable_and_target},
};
use crate::{
    kernels::{
        Hardware, Target,
        softmax::{Backward, Extent, Forward, Input, Types},
        vector_width, vector_width_for_lengths,
    },
    ops::{Softmax, SoftmaxOps, accumulator},
};
use burn::{
    backend::{TensorMetadata, tensor::FloatTensor},
    tensor::DType,
};
use burn_cubecl::{CubeBackend, tensor::CubeTensor};

impl SoftmaxOps for CubeBackend {
    fn softmax_forward(x: FloatTensor<Self>, dim: usize, form: Softmax) -> FloatTensor<Self> {
        let extent = extent(&x, dim);
        if extent.outer * extent.length * extent.inner == 0 {
            return x;
        }
        let (client, types) = (x.client.clone(), types(x.dtype));
        let (x, output, y) = input_and_target(x, dim, extent);
        Forward { extent, types, log: form == Softmax::Log, x, y }.launch(&client);
        output
    }

    fn softmax_backward(
        y: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        dim: usize,
        form: Softmax,
    ) -> FloatTensor<Self> {
        let extent = extent(&y, dim);
        assert_eq!(grad.shape(), y.shape(), "the gradient has the output's shape");
        if extent.outer * extent.length * extent.inner == 0 {
            return y;
        }
        let (client, types) = (y.client.clone(), types(y.dtype));
        let (dy, output, dx) = input_and_target(grad, dim, extent);
        let y = input(y, dim, extent);
        Backward { extent, types, log: form == Softmax::Log, dy, y, dx }.launch(&client);
        output
    }
}

fn types(x: DType) -> Types {
    Types { x: element(x), accumulator: element(accumulator(x).into()) }
}

fn extent(x: &CubeTensor, dim: usize) -> Extent {
    let shape = x.meta.shape();
    let (outer, length) = (shape[..dim].iter().product(), shape[dim]);
    let inner = shape[dim + 1..].iter().product();
    let widths = x.client.io_optimized_vector_sizes(x.dtype.size());
    let width = if inner == 1 {
        vector_width_for_lengths(length, widths, Hardware::of(&x.client))
    } else {
        vector_width(inner, widths)
    };
    Extent { outer, length, inner, width }
}

/// Trailing dimensions that have to be contiguous: vectors lie along them.
fn axes(tensor: &CubeTensor, dim: usize, extent: Extent) -> usize {
    let behind = tensor.meta.num_dims() - dim - 1;
    if extent.inner == 1 { behind + 1 } else { behind }
}

fn input(tensor: CubeTensor, dim: usize, extent: Extent) -> Input {
    let axes = axes(&tensor, dim, extent);
    laid_out(readable(tensor, axes, extent.width), dim)
}

fn input_and_target(tensor: CubeTensor, dim: usize, extent: Extent) -> (Input, CubeTensor, Target) {
    let axes = axes(&tensor, dim, extent);
    let (tensor, output, target) = readable_and_target(tensor, axes, extent.width);
    (laid_out(tensor, dim), output, target)
}

fn laid_out(tensor: CubeTensor, dim: usize) -> Input {
    Input { stride: tensor.meta.strides()[dim], matrix: matrix(tensor, dim) }
}
