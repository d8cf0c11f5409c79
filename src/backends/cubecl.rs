use crate::{
    kernels::{Backward, Extent, Forward, Matrix, Types, vector_width},
    ops::{
        OptionalTensor, RmsNormGradients, RmsNormOps, RmsNormOutput, accumulator,
        composed_backward, composed_forward, matrix,
    },
};
use burn::{
    backend::{TensorMetadata, tensor::FloatTensor},
    tensor::{DType, Shape},
};
use burn_cubecl::{
    CubeBackend, CubeDevice,
    kernel::into_contiguous,
    ops::numeric::{empty_device_contiguous_dtype, zeros},
    tensor::CubeTensor,
};
use cubecl::{client::Client, ir::ElemType};

/// The first type that the device does not compute in, of those that a call needs.
pub(crate) fn unsupported_dtype(
    device: &CubeDevice,
    input: DType,
    parameters: &[DType],
) -> Option<DType> {
    unsupported(&device.client(), input, parameters)
}

fn unsupported(client: &Client, input: DType, parameters: &[DType]) -> Option<DType> {
    let needed = [input, accumulator(input).into()];
    needed
        .into_iter()
        .chain(parameters.iter().copied())
        .find(|dtype| !client.properties().supports_type(element(*dtype)))
}

fn element(dtype: DType) -> ElemType {
    burn::backend::cubecl::dtype_to_elem_type(dtype)
}

impl RmsNormOps for CubeBackend {
    fn rms_norm(
        x: FloatTensor<Self>,
        gamma: OptionalTensor<Self>,
        axes: usize,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        if !fused(&x, &gamma) {
            return composed_forward(x, gamma, axes, epsilon).y;
        }
        rms_norm_forward(x, gamma, axes, epsilon, false).0
    }

    fn rms_norm_forward(
        x: FloatTensor<Self>,
        gamma: OptionalTensor<Self>,
        axes: usize,
        epsilon: f64,
    ) -> RmsNormOutput<Self> {
        if !fused(&x, &gamma) {
            return composed_forward(x, gamma, axes, epsilon);
        }
        let (y, inverse_rms) = rms_norm_forward(x, gamma, axes, epsilon, true);
        RmsNormOutput { y, inverse_rms: inverse_rms.expect("asked for above") }
    }

    fn rms_norm_backward(
        x: FloatTensor<Self>,
        gamma: OptionalTensor<Self>,
        inverse_rms: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        axes: usize,
        wants_x: bool,
        wants_gamma: bool,
    ) -> RmsNormGradients<Self> {
        if !fused(&x, &gamma) {
            return composed_backward(x, gamma, inverse_rms, grad, axes, wants_x, wants_gamma);
        }
        let gamma = gamma.into_option();
        let (extent, types) = (extent(&x, axes), types(&x, gamma.as_ref()));
        let (client, device) = (x.client.clone(), x.device.clone());
        let empty = |shape: Shape, dtype| {
            empty_device_contiguous_dtype(client.clone(), device.clone(), shape, dtype)
        };
        let dx = wants_x.then(|| empty(x.shape(), x.dtype));
        let dgamma = gamma.as_ref().filter(|_| wants_gamma).map(|gamma| match extent.rows {
            0 => zeros(device.clone(), gamma.shape(), gamma.dtype),
            _ => empty(gamma.shape(), gamma.dtype),
        });
        if extent.rows > 0 {
            Backward {
                extent,
                types,
                x: rows(x, axes, extent.width),
                gamma: gamma.map(|gamma| parameter(gamma, extent.width)),
                inverse_rms: inverse_rms.handle,
                dy: rows(grad, axes, extent.width),
                dx: dx.as_ref().map(|dx| dx.handle.clone()),
                dgamma: dgamma.as_ref().map(|dgamma| dgamma.handle.clone()),
            }
            .launch(&client);
        }
        RmsNormGradients { x: dx.into(), gamma: dgamma.into() }
    }
}

fn fused(x: &CubeTensor, gamma: &OptionalTensor<CubeBackend>) -> bool {
    let parameter = match gamma {
        OptionalTensor::Some(gamma) => Some(gamma.dtype),
        OptionalTensor::None => None,
    };
    unsupported(&x.client, x.dtype, parameter.as_slice()).is_none()
}

fn rms_norm_forward(
    x: CubeTensor,
    gamma: OptionalTensor<CubeBackend>,
    axes: usize,
    epsilon: f64,
    wants_inverse_rms: bool,
) -> (CubeTensor, Option<CubeTensor>) {
    let gamma = gamma.into_option();
    let (extent, types) = (extent(&x, axes), types(&x, gamma.as_ref()));
    let (client, device) = (x.client.clone(), x.device.clone());
    let empty = |shape: Shape, dtype| {
        empty_device_contiguous_dtype(client.clone(), device.clone(), shape, dtype)
    };
    let y = empty(x.shape(), x.dtype);
    let inverse_rms =
        wants_inverse_rms.then(|| empty(Shape::new([extent.rows]), accumulator(x.dtype).into()));
    if extent.rows > 0 {
        Forward {
            extent,
            types,
            epsilon,
            x: rows(x, axes, extent.width),
            gamma: gamma.map(|gamma| parameter(gamma, extent.width)),
            y: y.handle.clone(),
            inverse_rms: inverse_rms.as_ref().map(|tensor| tensor.handle.clone()),
        }
        .launch(&client);
    }
    (y, inverse_rms)
}

fn types(x: &CubeTensor, gamma: Option<&CubeTensor>) -> Types {
    Types {
        x: element(x.dtype),
        gamma: element(gamma.map_or(x.dtype, |gamma| gamma.dtype)),
        accumulator: element(accumulator(x.dtype).into()),
    }
}

fn extent(x: &CubeTensor, axes: usize) -> Extent {
    let [rows, columns] = matrix(&x.shape(), axes);
    let widths = x.client.io_optimized_vector_sizes(x.dtype.size());
    Extent { rows, columns, width: vector_width(columns, widths) }
}

/// The tensor as rows of its last `axes` dimensions, copied only where the kernels cannot read it
/// as it lies: columns apart, or vectors of `width` that would not be aligned.
fn rows(tensor: CubeTensor, axes: usize, width: usize) -> Matrix {
    let tensor = readable(tensor, axes, width);
    let split = tensor.meta.shape().num_dims() - axes;
    let dims = tensor.meta.shape().iter().zip(tensor.meta.strides().iter()).take(split);
    let mut rows: Vec<(usize, usize)> = Vec::with_capacity(split.max(1));
    for (&size, &stride) in dims.filter(|(size, _)| **size != 1) {
        match rows.last_mut() {
            Some(last) if last.1 == size * stride => *last = (last.0 * size, stride),
            _ => rows.push((size, stride)),
        }
    }
    if rows.is_empty() {
        rows.push((1, 0));
    }
    let len = tensor.handle.size_in_used() as usize / tensor.dtype.size();
    Matrix { handle: tensor.handle, len, rows }
}

/// A contiguous parameter, aligned for vectors of `width`.
fn parameter(tensor: CubeTensor, width: usize) -> cubecl::server::Handle {
    let axes = tensor.rank();
    readable(tensor, axes, width).handle
}

fn readable(tensor: CubeTensor, axes: usize, width: usize) -> CubeTensor {
    if is_readable(&tensor, axes, width) {
        return tensor;
    }
    let tensor = if tensor.is_contiguous() { tensor.copy() } else { tensor };
    into_contiguous(tensor)
}

fn is_readable(tensor: &CubeTensor, axes: usize, width: usize) -> bool {
    let (shape, strides) = (tensor.meta.shape(), tensor.meta.strides());
    let split = shape.num_dims() - axes;
    let mut expected = 1;
    let columns = shape.iter().zip(strides.iter()).skip(split).rev().all(|(&size, &stride)| {
        let adjoins = size == 1 || stride == expected;
        expected *= size;
        adjoins
    });
    let vector = (width * tensor.dtype.size()) as u64;
    !tensor.meta.is_tiled()
        && columns
        && strides.iter().take(split).all(|stride| stride.is_multiple_of(width))
        && tensor.handle.offset_start.unwrap_or(0).is_multiple_of(vector)
}
