//! CubeCL runtimes: primitives in, kernels launched.

mod attention_softmax;
mod cross_entropy;
mod layout;
mod norm;
mod softmax;

use crate::ops::Needs;
use burn::tensor::{DType, Shape};
use burn_cubecl::{CubeDevice, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::ir::ElemType;

/// Whether the device computes in an element type. All do in the accumulators of those they know.
pub(crate) fn computes_in(device: &CubeDevice, dtype: DType, needs: Needs) -> bool {
    // Every runtime does in f32. This is asked at each call, and looking up a client takes time.
    if dtype == DType::F32 {
        return true;
    }
    let client = device.client();
    // Neither WGSL nor Vulkan's extended instructions have a double exponential.
    let no_exponential = dtype == DType::F64 && client.name().starts_with("wgpu");
    client.properties().supports_type(element(dtype))
        && !(needs == Needs::Exponentials && no_exponential)
}

fn element(dtype: DType) -> ElemType {
    burn::backend::cubecl::dtype_to_elem_type(dtype)
}

/// A new tensor beside `tensor`.
fn empty_beside(tensor: &CubeTensor, shape: Shape, dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(tensor.client.clone(), tensor.device.clone(), shape, dtype)
}
