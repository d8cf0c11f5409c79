//! A chosen gradient for a tensor, with no arithmetic in between: bit for bit, and in memory as it
//! lies, which no op of Burn leaves alone.

use burn::{
    backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor},
    tensor::Tensor,
};
use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};

/// `y`, whose gradient is `gradient` when [`Tensor::backward`] is called on the result.
pub fn deliver<const D: usize>(y: Tensor<D>, gradient: Tensor<D>) -> Tensor<D> {
    assert_eq!(y.dims(), gradient.dims());
    let gradient = gradient.autodiff().into_dispatch();
    Tensor::from_dispatch(Dispatch::deliver(y.into_dispatch(), gradient))
}

#[backend_extension(
    Cube: cfg(feature = "cubecl-backend"),
    Flex: cfg(feature = "flex"),
    Autodiff,
    Fusion: cfg(feature = "fusion"),
)]
trait Deliver: Backend {
    #[fusion(default)]
    fn deliver(y: FloatTensor<Self>, _gradient: FloatTensor<Self>) -> FloatTensor<Self> {
        y
    }
}

#[cfg(feature = "cubecl-backend")]
impl Deliver for burn_cubecl::CubeBackend {}
#[cfg(feature = "flex")]
impl Deliver for burn::backend::Flex {}

impl<B: Deliver, C: CheckpointStrategy> Deliver for Autodiff<B, C> {
    fn deliver(y: FloatTensor<Self>, gradient: FloatTensor<Self>) -> FloatTensor<Self> {
        let gradient = gradient.into_primitive();
        match Step.prepare::<C>([y.node()]).compute_bound().stateful() {
            OpsKind::Tracked(step) => step.finish(gradient, y.into_primitive()),
            OpsKind::UnTracked(step) => step.finish(y.into_primitive()),
        }
    }
}

#[derive(Debug)]
struct Step;

impl<B: Backend> Backward<B, 1> for Step {
    type State = FloatTensor<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        grads.consume::<B>(&ops.node);
        for parent in ops.parents.into_iter().flatten() {
            grads.register::<B>(parent.id, ops.state.clone());
        }
    }
}
