//! CubeCL runtimes: primitives in, kernels launched.

mod attention_softmax;
mod cross_entropy;
mod layout;
mod norm;
mod softmax;

use crate::{
    kernels::{Hardware, stored},
    ops::Needs,
};
use burn::tensor::{DType, Shape};
use burn_cubecl::{
    CubeDevice,
    ops::numeric::{empty_device_contiguous_dtype, zeros},
    tensor::CubeTensor,
};
use cubecl::{client::Client, ir::ElemType};

/// Whether the device computes in an element type. All do in the accumulators of those they know.
pub(crate) fn computes_in(device: &CubeDevice, dtype: DType, needs: Needs) -> bool {
    // Every runtime does in these. This is asked at each call, and looking up a client takes time.
    if matches!(dtype, DType::F32 | DType::I32) {
        return true;
    }
    let client = device.client();
    // Neither WGSL nor Vulkan's extended instructions have a double exponential.
    let no_exponential = dtype == DType::F64 && client.name().starts_with("wgpu");
    client.properties().supports_type(element(dtype))
        && !(needs == Needs::Exponentials && no_exponential)
        && !(dtype == DType::F16 && client.name() == "cpu" && !has_f16_conversions())
}

/// Whether the processor converts between f16 and f32: all since 2013, but not every virtual one. For it
/// CubeCL's CPU compiler calls functions that came with GCC 12. Where they are missing kernels don't run, and no
/// caller is told.
fn has_f16_conversions() -> bool {
    #[cfg(all(feature = "cpu", target_arch = "x86_64"))]
    return std::arch::is_x86_feature_detected!("f16c");
    #[cfg(not(all(feature = "cpu", target_arch = "x86_64")))]
    return true;
}

fn element(dtype: DType) -> ElemType {
    burn::backend::cubecl::dtype_to_elem_type(dtype)
}

/// What kernels take a float type for: as it is, but for bf16 on the CPU.
fn stored_as(dtype: DType, hardware: Hardware) -> ElemType {
    stored(element(dtype), hardware)
}

/// The type as which Burn's own kernels are to copy and fill, for the reason that [`stored`] has.
fn as_bits(dtype: DType, client: &Client) -> DType {
    if dtype == DType::BF16 && Hardware::of(client).cpu { DType::U16 } else { dtype }
}

/// Zeros beside `tensor`.
fn zeros_beside(tensor: &CubeTensor, shape: Shape, dtype: DType) -> CubeTensor {
    let bits = as_bits(dtype, &tensor.client);
    CubeTensor { dtype, ..zeros(tensor.device.clone(), shape, bits) }
}

/// A new tensor beside `tensor`.
fn empty_beside(tensor: &CubeTensor, shape: Shape, dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(tensor.client.clone(), tensor.device.clone(), shape, dtype)
}
