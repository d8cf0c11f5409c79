use super::{
    element, empty_beside,
    layout::{Reading, matrix, parameter, readable_and_output, rows},
};
use crate::{
    kernels::{
        Hardware, Output,
        norm::{Backward, Extent, Forward, Types},
        vector_width,
    },
    ops::{Norm, NormGradients, NormOps, NormOutput, NormWanted, OptionalTensor, accumulator},
};
use burn::{
    backend::{TensorMetadata, tensor::FloatTensor},
    tensor::{DType, Shape},
};
use burn_cubecl::{CubeBackend, ops::numeric::zeros, tensor::CubeTensor};

impl NormOps for CubeBackend {
    fn norm(
        x: FloatTensor<Self>,
        gamma: OptionalTensor<Self>,
        beta: OptionalTensor<Self>,
        norm: Norm,
        axes: usize,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        forward(x, gamma, beta, norm, axes, epsilon, false).0
    }

    fn norm_forward(
        x: FloatTensor<Self>,
        gamma: OptionalTensor<Self>,
        beta: OptionalTensor<Self>,
        norm: Norm,
        axes: usize,
        epsilon: f64,
    ) -> NormOutput<Self> {
        let (y, statistics) = forward(x, gamma, beta, norm, axes, epsilon, true);
        NormOutput { y, statistics: statistics.expect("asked for above") }
    }

    fn norm_backward(
        x: FloatTensor<Self>,
        gamma: OptionalTensor<Self>,
        statistics: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        norm: Norm,
        axes: usize,
        wanted: NormWanted,
    ) -> NormGradients<Self> {
        let gamma = gamma.into_option();
        let extent = extent(&x, axes);
        assert_eq!(grad.shape(), x.shape(), "the gradient has the input's shape");
        let saved = Shape::new([norm.statistics(), extent.rows]);
        assert_eq!(statistics.shape(), saved, "the statistics are those of a forward pass");
        assert_row(gamma.as_ref(), extent);
        let gamma_type = gamma.as_ref().map(|gamma| gamma.dtype);
        let types = types(x.dtype, gamma_type, wanted.beta);
        let leading = x.rank() - axes;
        let row = Shape::from(x.meta.shape()[leading..].to_vec());
        let sum = |dtype: DType| match extent.rows {
            0 => zeros(x.device.clone(), row.clone(), dtype),
            _ => empty_beside(&x, row.clone(), dtype),
        };
        let dgamma = gamma_type.filter(|_| wanted.gamma).map(sum);
        let dbeta = wanted.beta.map(sum);
        if extent.rows == 0 {
            let dx = wanted.x.then_some(x);
            return NormGradients { x: dx.into(), gamma: dgamma.into(), beta: dbeta.into() };
        }
        let client = x.client.clone();
        let reading = reading(axes, extent);
        let (dy, dx, target) = if wanted.x {
            let (dy, dx, target) = written(grad, reading, extent);
            (matrix(dy, leading, reading), Some(dx), Some(target))
        } else {
            (rows(grad, reading), None, None)
        };
        Backward {
            extent,
            types,
            centered: norm == Norm::Layer,
            dy,
            x: rows(x, reading),
            gamma: gamma.map(|gamma| parameter(gamma, extent.width)),
            statistics: statistics.handle,
            dx: target,
            dgamma: dgamma.as_ref().map(|dgamma| dgamma.handle.clone()),
            dbeta: dbeta.as_ref().map(|dbeta| dbeta.handle.clone()),
        }
        .launch(&client);
        NormGradients { x: dx.into(), gamma: dgamma.into(), beta: dbeta.into() }
    }
}

fn forward(
    x: CubeTensor,
    gamma: OptionalTensor<CubeBackend>,
    beta: OptionalTensor<CubeBackend>,
    norm: Norm,
    axes: usize,
    epsilon: f64,
    wants_statistics: bool,
) -> (CubeTensor, Option<CubeTensor>) {
    let (gamma, beta) = (gamma.into_option(), beta.into_option());
    let extent = extent(&x, axes);
    assert_row(gamma.as_ref(), extent);
    assert_row(beta.as_ref(), extent);
    let [gamma_type, beta_type] = [&gamma, &beta].map(|p| p.as_ref().map(|p| p.dtype));
    let types = types(x.dtype, gamma_type, beta_type);
    let statistics = wants_statistics.then(|| {
        let shape = Shape::new([norm.statistics(), extent.rows]);
        empty_beside(&x, shape, accumulator(x.dtype).into())
    });
    if extent.rows == 0 {
        return (x, statistics);
    }
    let client = x.client.clone();
    let leading = x.rank() - axes;
    let reading = reading(axes, extent);
    let (x, y, target) = written(x, reading, extent);
    Forward {
        extent,
        types,
        centered: norm == Norm::Layer,
        epsilon,
        x: matrix(x, leading, reading),
        gamma: gamma.map(|gamma| parameter(gamma, extent.width)),
        beta: beta.map(|beta| parameter(beta, extent.width)),
        y: target,
        statistics: statistics.as_ref().map(|statistics| statistics.handle.clone()),
    }
    .launch(&client);
    (y, statistics)
}

/// A tensor to read, and one for the gradient or the output.
fn written(
    tensor: CubeTensor,
    reading: Reading,
    extent: Extent,
) -> (CubeTensor, CubeTensor, Output) {
    let leading = tensor.rank() - reading.axes;
    readable_and_output(tensor, reading, leading, |_| Some(extent.columns))
}

fn reading(axes: usize, extent: Extent) -> Reading {
    Reading { axes, width: extent.width, piecewise: extent.hardware.by_address }
}

/// Kernels read as many elements of a parameter as a row has.
fn assert_row(parameter: Option<&CubeTensor>, extent: Extent) {
    if let Some(parameter) = parameter {
        let found = parameter.meta.num_elements();
        assert_eq!(found, extent.columns, "a parameter has the shape of a row");
    }
}

fn types(x: DType, gamma: Option<DType>, beta: Option<DType>) -> Types {
    Types {
        x: element(x),
        gamma: element(gamma.unwrap_or(x)),
        beta: element(beta.unwrap_or(x)),
        accumulator: element(accumulator(x).into()),
    }
}

fn extent(x: &CubeTensor, axes: usize) -> Extent {
    let [rows, columns] = crate::ops::matrix(&x.shape(), axes);
    let widths = x.client.io_optimized_vector_sizes(x.dtype.size());
    let hardware = Hardware::of(&x.client);
    let width = vector_width(columns, x.dtype.size(), widths, hardware);
    Extent { rows, columns, width, hardware }
}
