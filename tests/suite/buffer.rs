//! Which buffer a tensor is in, seen from between two ops.

use burn::{
    backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor},
    tensor::Tensor,
};
use std::sync::Mutex;

/// A buffer's number, where the device has such, noted once the work before it is launched.
pub type Note = &'static Mutex<Option<usize>>;

/// `tensor`, of whose buffer a note is made.
pub fn noted<const D: usize>(tensor: Tensor<D>) -> (Tensor<D>, Note) {
    let note: Note = Box::leak(Box::default());
    (Tensor::from_dispatch(Dispatch::note(tensor.into_dispatch(), Noted(note))), note)
}

#[derive(Debug, Clone, Copy)]
struct Noted(Note);

#[backend_extension(
    Cube: cfg(feature = "cubecl-backend"),
    Flex: cfg(feature = "flex"),
    Fusion: cfg(feature = "fusion"),
)]
trait Buffers: Backend {
    #[fusion(dtype = tensor, shape = tensor)]
    fn note(tensor: FloatTensor<Self>, _note: Noted) -> FloatTensor<Self> {
        tensor
    }
}

#[cfg(feature = "cubecl-backend")]
impl Buffers for burn_cubecl::CubeBackend {
    fn note(tensor: FloatTensor<Self>, note: Noted) -> FloatTensor<Self> {
        *note.0.lock().unwrap() = Some(tensor.handle.memory.descriptor().id.value);
        tensor
    }
}
#[cfg(feature = "flex")]
impl Buffers for burn::backend::Flex {}
