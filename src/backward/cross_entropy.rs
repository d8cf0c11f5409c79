use crate::ops::{CrossEntropyOps, CrossEntropyOptions, OptionalTensor};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn_autodiff::{
    Autodiff, NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};

impl<B: CrossEntropyOps, C: CheckpointStrategy> CrossEntropyOps for Autodiff<B, C> {
    fn cross_entropy(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        weights: OptionalTensor<Self>,
        options: CrossEntropyOptions,
    ) -> FloatTensor<Self> {
        let weights = weights.into_option().map(|weights| weights.into_primitive());
        // A number a row: less than what it would take to compute it again.
        match Step.prepare::<C>([logits.node()]).compute_bound().stateful() {
            OpsKind::Tracked(mut step) => {
                let saved_logits = step.checkpoint(&logits);
                let logits = logits.into_primitive();
                let (own_targets, own_weights) = (targets.clone(), weights.clone().into());
                let output = B::cross_entropy_forward(logits, own_targets, own_weights, options);
                let saved = output.saved;
                let state = State { logits: saved_logits, targets, weights, saved, options };
                step.finish(state, output.losses)
            }
            OpsKind::UnTracked(step) => {
                let logits = logits.into_primitive();
                step.finish(B::cross_entropy(logits, targets, weights.into(), options))
            }
        }
    }
}

#[derive(Debug)]
struct Step;

#[derive(Debug, Clone)]
struct State<T, I> {
    /// Shared with the graph.
    logits: NodeId,
    targets: I,
    weights: Option<T>,
    saved: T,
    options: CrossEntropyOptions,
}

impl<B: CrossEntropyOps> Backward<B, 1> for Step {
    type State = State<FloatTensor<B>, IntTensor<B>>;

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let State { logits, targets, weights, saved, options } = ops.state;
        let grad = grads.consume::<B>(&ops.node);
        let logits = checkpointer.retrieve_node_output(logits);
        let [parent] = ops.parents;
        if let Some(parent) = parent {
            let weights = weights.into();
            let gradient =
                B::cross_entropy_backward(logits, targets, weights, saved, grad, options);
            grads.register::<B>(parent.id, gradient);
        }
    }
}
