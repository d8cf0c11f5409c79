use super::{
    element, empty_beside,
    layout::{Reading, Writing, matrix, parameter, readable, rows},
    stored_as, zeros_beside,
};
use crate::{
    kernels::{
        Hardware, dividing_width,
        norm::{Backward, DY, ELSEWHERE, Extent, Forward, RESIDUAL, Residual, Types, X},
        vector_width,
    },
    ops::{
        AddNormForward, AddNormOutput, Norm, NormGradients, NormOps, NormOutput, NormSpec,
        NormUpstream, NormWanted, OptionalTensor, accumulator,
    },
};
use burn::{
    backend::{TensorMetadata, tensor::FloatTensor},
    tensor::{DType, Shape},
};
use burn_cubecl::{CubeBackend, tensor::CubeTensor};

impl NormOps for CubeBackend {
    fn norm(
        x: FloatTensor<Self>,
        gamma: OptionalTensor<Self>,
        beta: OptionalTensor<Self>,
        spec: NormSpec,
    ) -> FloatTensor<Self> {
        let call = Call { gamma, beta, spec, saves: false };
        forward(x, None, call).y
    }

    fn norm_forward(
        x: FloatTensor<Self>,
        gamma: OptionalTensor<Self>,
        beta: OptionalTensor<Self>,
        spec: NormSpec,
    ) -> NormOutput<Self> {
        let call = Call { gamma, beta, spec, saves: true };
        let Outputs { y, statistics, .. } = forward(x, None, call);
        NormOutput { y, statistics: statistics.expect("it saves them") }
    }

    fn add_norm(
        x: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        gamma: OptionalTensor<Self>,
        beta: OptionalTensor<Self>,
        spec: NormSpec,
    ) -> AddNormOutput<Self> {
        let call = Call { gamma, beta, spec, saves: false };
        let Outputs { y, sum, .. } = forward(x, Some(residual), call);
        AddNormOutput { y, sum: sum.expect("there is a residual") }
    }

    fn add_norm_forward(
        x: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        gamma: OptionalTensor<Self>,
        beta: OptionalTensor<Self>,
        spec: NormSpec,
    ) -> AddNormForward<Self> {
        let call = Call { gamma, beta, spec, saves: true };
        let Outputs { y, sum, statistics } = forward(x, Some(residual), call);
        let sum = sum.expect("there is a residual");
        AddNormForward { y, sum, statistics: statistics.expect("it saves them") }
    }

    fn norm_backward(
        x: FloatTensor<Self>,
        gamma: OptionalTensor<Self>,
        statistics: FloatTensor<Self>,
        upstream: NormUpstream<Self>,
        spec: NormSpec,
        wanted: NormWanted,
    ) -> NormGradients<Self> {
        let gamma = gamma.into_option();
        let NormUpstream { y: grad, x: elsewhere } = upstream;
        let elsewhere = elsewhere.into_option().filter(|_| wanted.x);
        let NormSpec { norm, axes, zero_centered_gamma, .. } = spec;
        let extent = extent(&x, spec);
        assert_eq!(grad.shape(), x.shape(), "the gradient has the input's shape");
        assert_like(elsewhere.as_ref(), &x);
        let saved = Shape::new([norm.statistics(), extent.rows]);
        assert_eq!(statistics.shape(), saved, "the statistics are those of a forward pass");
        assert_row(gamma.as_ref(), extent);
        let gamma_type = gamma.as_ref().map(|gamma| gamma.dtype);
        let types = types(x.dtype, grad.dtype, gamma_type, wanted.beta, extent.hardware);
        let leading = x.rank() - axes;
        let row = spec.parameter(x.meta.shape());
        let sum = |dtype: DType| match extent.rows {
            0 => zeros_beside(&x, row.clone(), dtype),
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
        let dy = readable(grad, reading);
        let elsewhere = elsewhere.map(|tensor| readable(tensor, reading));
        let span = |_: &CubeTensor| Some(extent.columns);
        let dx = wanted.x.then(|| {
            let over = |tensor: &CubeTensor, position| {
                Writing::over(tensor, x.dtype, position, reading, leading, span)
            };
            over(&dy, DY)
                .or_else(|| over(elsewhere.as_ref()?, ELSEWHERE))
                .unwrap_or_else(|| Writing::new(&dy, x.dtype, reading, leading, span))
        });
        let (dx, target) = dx.map(|dx| (dx.tensor, dx.output)).unzip();
        Backward {
            extent,
            types,
            centered: norm == Norm::Layer,
            zero_centered_gamma,
            dy: matrix(dy, leading, reading),
            x: rows(x, reading),
            elsewhere: elsewhere.map(|tensor| matrix(tensor, leading, reading)),
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

struct Call {
    gamma: OptionalTensor<CubeBackend>,
    beta: OptionalTensor<CubeBackend>,
    spec: NormSpec,
    /// Whether it saves statistics.
    saves: bool,
}

struct Outputs {
    y: CubeTensor,
    sum: Option<CubeTensor>,
    statistics: Option<CubeTensor>,
}

fn forward(x: CubeTensor, residual: Option<CubeTensor>, call: Call) -> Outputs {
    let Call { gamma, beta, spec, saves } = call;
    let NormSpec { norm, axes, epsilon, zero_centered_gamma, .. } = spec;
    let dtype = DType::from(spec.dtype);
    let (gamma, beta) = (gamma.into_option(), beta.into_option());
    let extent = extent(&x, spec);
    assert_like(residual.as_ref(), &x);
    assert_row(gamma.as_ref(), extent);
    assert_row(beta.as_ref(), extent);
    let [gamma_type, beta_type] = [&gamma, &beta].map(|p| p.as_ref().map(|p| p.dtype));
    let types = types(x.dtype, dtype, gamma_type, beta_type, extent.hardware);
    let statistics = saves.then(|| {
        let shape = Shape::new([norm.statistics(), extent.rows]);
        empty_beside(&x, shape, accumulator(x.dtype).into())
    });
    if extent.rows == 0 {
        let y = empty_beside(&x, x.shape(), dtype);
        return Outputs { y, sum: residual, statistics };
    }
    let client = x.client.clone();
    let leading = x.rank() - axes;
    let reading = reading(axes, extent);
    let x = readable(x, reading);
    let span = |_: &CubeTensor| Some(extent.columns);
    let written = |tensor: &CubeTensor, dtype, position| {
        Writing::over_or_new(tensor, dtype, position, reading, leading, span)
    };
    let y = written(&x, dtype, X);
    let (residual, sum) = residual
        .map(|residual| {
            let residual = readable(residual, reading);
            let sum = written(&residual, residual.dtype, RESIDUAL);
            let matrix = matrix(residual, leading, reading);
            (Residual { matrix, sum: sum.output }, sum.tensor)
        })
        .unzip();
    Forward {
        extent,
        types,
        centered: norm == Norm::Layer,
        zero_centered_gamma,
        epsilon,
        x: matrix(x, leading, reading),
        residual,
        gamma: gamma.map(|gamma| parameter(gamma, extent.width)),
        beta: beta.map(|beta| parameter(beta, extent.width)),
        y: y.output,
        statistics: statistics.as_ref().map(|statistics| statistics.handle.clone()),
    }
    .launch(&client);
    Outputs { y: y.tensor, sum, statistics }
}

fn reading(axes: usize, extent: Extent) -> Reading {
    Reading { axes, width: extent.width, piecewise: extent.hardware.by_address }
}

/// Kernels read as many elements of a parameter as rows have in turn.
fn assert_row(parameter: Option<&CubeTensor>, extent: Extent) {
    if let Some(parameter) = parameter {
        let found = parameter.meta.num_elements();
        let expected = extent.heads * extent.columns;
        assert_eq!(found, expected, "a parameter has the shape that the call says");
    }
}

fn assert_like(other: Option<&CubeTensor>, x: &CubeTensor) {
    if let Some(other) = other {
        assert_eq!((other.shape(), other.dtype), (x.shape(), x.dtype), "it is like the input");
    }
}

fn types(
    x: DType,
    y: DType,
    gamma: Option<DType>,
    beta: Option<DType>,
    hardware: Hardware,
) -> Types {
    let of = |dtype| stored_as(dtype, hardware);
    Types {
        x: of(x),
        y: of(y),
        gamma: of(gamma.unwrap_or(x)),
        beta: of(beta.unwrap_or(x)),
        accumulator: element(accumulator(x).into()),
    }
}

fn extent(x: &CubeTensor, spec: NormSpec) -> Extent {
    let shape = x.shape();
    let [rows, columns] = crate::ops::matrix(&shape, spec.axes);
    let heads = spec.heads(&shape);
    let widths = x.client.io_optimized_vector_sizes(x.dtype.size());
    let hardware = Hardware::of(&x.client);
    // Each head's parameters begin at a vector, also where there is one head.
    let width = if spec.parameter_axes == spec.axes {
        vector_width(columns, x.dtype.size(), widths, hardware)
    } else {
        dividing_width(columns, widths)
    };
    Extent { rows, columns, heads, width, hardware }
}
