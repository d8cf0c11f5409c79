use crate::ops::{
    AttentionSoftmaxOps, AttentionSoftmaxOptions, AttentionSoftmaxWanted, OptionalBoolTensor,
    OptionalTensor,
};
use burn::{
    backend::{TensorMetadata, tensor::FloatTensor},
    tensor::{DType, Shape},
};
use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};

impl<B: AttentionSoftmaxOps, C: CheckpointStrategy> AttentionSoftmaxOps for Autodiff<B, C> {
    fn attention_softmax_forward(
        x: FloatTensor<Self>,
        mask: OptionalBoolTensor<Self>,
        bias: OptionalTensor<Self>,
        options: AttentionSoftmaxOptions,
    ) -> FloatTensor<Self> {
        let mask = mask.into_option().into();
        match bias.into_option() {
            None => record::<B, C, 1>([x], mask, options),
            Some(bias) => record::<B, C, 2>([x, bias], mask, options),
        }
    }
}

/// Runs the forward pass of the scores and, where there is one, the bias, and records its step.
fn record<B: AttentionSoftmaxOps, C: CheckpointStrategy, const N: usize>(
    inputs: [FloatTensor<Autodiff<B, C>>; N],
    mask: OptionalBoolTensor<B>,
    options: AttentionSoftmaxOptions,
) -> FloatTensor<Autodiff<B, C>> {
    // The output is kept, checkpointing or not: with it the backward pass needs no input.
    let nodes = inputs.each_ref().map(|input| input.node());
    let step = Step.prepare::<C>(nodes).compute_bound().stateful();
    let mut inputs = inputs.into_iter().map(|input| input.into_primitive());
    let x = inputs.next().expect("the scores come first");
    let bias = inputs.next();
    let of_bias = bias.as_ref().map(|bias| (bias.dtype(), bias.shape()));
    let y = B::attention_softmax_forward(x, mask, bias.into(), options);
    match step {
        OpsKind::Tracked(step) => {
            step.finish(State { y: y.clone(), of_bias, scale: options.scale }, y)
        }
        OpsKind::UnTracked(step) => step.finish(y),
    }
}

#[derive(Debug)]
struct Step;

#[derive(Debug, Clone)]
struct State<T> {
    /// The output, shared with the graph.
    y: T,
    of_bias: Option<(DType, Shape)>,
    scale: f64,
}

impl<B: AttentionSoftmaxOps, const N: usize> Backward<B, N> for Step {
    type State = State<FloatTensor<B>>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let State { y, of_bias, scale } = ops.state;
        let grad = grads.consume::<B>(&ops.node);
        let mut parents = ops.parents.into_iter();
        let (x, bias) = (parents.next().flatten(), parents.next().flatten());
        let wanted = AttentionSoftmaxWanted { x: x.is_some(), bias: bias.as_ref().and(of_bias) };
        let gradients = B::attention_softmax_backward(y, grad, scale, wanted);
        for (parent, gradient) in [(x, gradients.x), (bias, gradients.bias)] {
            if let (Some(parent), Some(gradient)) = (parent, gradient.into_option()) {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}
