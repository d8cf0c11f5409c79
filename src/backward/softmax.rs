use crate::ops::{Softmax, SoftmaxOps};
use burn::backend::tensor::FloatTensor;
use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};

impl<B: SoftmaxOps, C: CheckpointStrategy> SoftmaxOps for Autodiff<B, C> {
    fn softmax_forward(x: FloatTensor<Self>, dim: usize, form: Softmax) -> FloatTensor<Self> {
        // The output is kept, checkpointing or not: with it the backward pass needs no input.
        let step = Step.prepare::<C>([x.node()]).compute_bound().stateful();
        let y = B::softmax_forward(x.into_primitive(), dim, form);
        match step {
            OpsKind::Tracked(step) => step.finish(State { y: y.clone(), dim, form }, y),
            OpsKind::UnTracked(step) => step.finish(y),
        }
    }
}

#[derive(Debug)]
struct Step;

#[derive(Debug, Clone)]
struct State<T> {
    /// The output, shared with the graph.
    y: T,
    dim: usize,
    form: Softmax,
}

impl<B: SoftmaxOps> Backward<B, 1> for Step {
    type State = State<FloatTensor<B>>;

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let State { y, dim, form } = ops.state;
        let grad = grads.consume::<B>(&ops.node);
        let [parent] = ops.parents;
        if let Some(parent) = parent {
            grads.register::<B>(parent.id, B::softmax_backward(y, grad, dim, form));
        }
    }
}
