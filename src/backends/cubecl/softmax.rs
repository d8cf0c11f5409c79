use super::{
    element,
    layout::{Reading, Writing, matrix, readable},
    stored_as,
};
use crate::{
    kernels::{
        Hardware, column_width,
        softmax::{Backward, Extent, Forward, Input, Types, Written},
        vector_width_for_lengths,
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
        let (client, types) = (x.client.clone(), types(x.dtype, extent.hardware));
        let (x, output, y) = input_and_output(x, dim, extent);
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
        let (client, types) = (y.client.clone(), types(y.dtype, extent.hardware));
        let (dy, output, dx) = input_and_output(grad, dim, extent);
        let y = input(y, dim, extent);
        Backward { extent, types, log: form == Softmax::Log, dy, y, dx }.launch(&client);
        output
    }
}

pub(super) fn types(x: DType, hardware: Hardware) -> Types {
    Types { x: stored_as(x, hardware), accumulator: element(accumulator(x).into()) }
}

pub(super) fn extent(x: &CubeTensor, dim: usize) -> Extent {
    let shape = x.meta.shape();
    let (outer, length) = (shape[..dim].iter().product(), shape[dim]);
    let inner = shape[dim + 1..].iter().product();
    let widths = x.client.io_optimized_vector_sizes(x.dtype.size());
    let hardware = Hardware::of(&x.client);
    let width = if inner == 1 {
        vector_width_for_lengths(length, x.dtype.size(), widths, hardware)
    } else {
        column_width(inner, widths, hardware)
    };
    Extent { outer, length, inner, width, hardware }
}

/// Vectors lie along the dimension, or along those behind it.
pub(super) fn reading(tensor: &CubeTensor, dim: usize, extent: Extent) -> Reading {
    let behind = tensor.meta.num_dims() - dim - 1;
    let along = extent.inner == 1;
    Reading {
        axes: if along { behind + 1 } else { behind },
        width: extent.width,
        piecewise: along && extent.hardware.by_address,
    }
}

pub(super) fn input(tensor: CubeTensor, dim: usize, extent: Extent) -> Input {
    let reading = reading(&tensor, dim, extent);
    laid_out(readable(tensor, reading), dim, reading)
}

pub(super) fn input_and_output(
    tensor: CubeTensor,
    dim: usize,
    extent: Extent,
) -> (Input, CubeTensor, Written) {
    let Extent { length, inner, .. } = extent;
    let reading = reading(&tensor, dim, extent);
    let tensor = readable(tensor, reading);
    let Writing { tensor: output, output: rows } =
        Writing::over_or_new(&tensor, tensor.dtype, 0, reading, dim, |tensor| {
            let stride = if length == 1 { inner } else { tensor.meta.strides()[dim] };
            (stride >= inner).then_some(length * stride)
        });
    let written = Written { rows, stride: output.meta.strides()[dim] };
    (laid_out(tensor, dim, reading), output, written)
}

fn laid_out(tensor: CubeTensor, dim: usize, reading: Reading) -> Input {
    Input { stride: tensor.meta.strides()[dim], matrix: matrix(tensor, dim, reading) }
}
