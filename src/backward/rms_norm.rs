use crate::ops::{OptionalTensor, RmsNormOps};
use burn::backend::{Backend, tensor::FloatTensor};
use burn_autodiff::{
    Autodiff, NodeId,
    checkpoint::{
        base::Checkpointer, retro_forward::RetroForward, state::BackwardStates,
        strategy::CheckpointStrategy,
    },
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use core::marker::PhantomData;

impl<B: RmsNormOps, C: CheckpointStrategy> RmsNormOps for Autodiff<B, C> {
    fn rms_norm(
        x: FloatTensor<Self>,
        gamma: OptionalTensor<Self>,
        axes: usize,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        match gamma {
            OptionalTensor::None => record::<B, C, 1>([x], axes, epsilon),
            OptionalTensor::Some(gamma) => record::<B, C, 2>([x, gamma], axes, epsilon),
        }
    }
}

/// Runs the forward pass on `[x]` or `[x, gamma]` and records its step.
fn record<B: RmsNormOps, C: CheckpointStrategy, const N: usize>(
    inputs: [FloatTensor<Autodiff<B, C>>; N],
    axes: usize,
    epsilon: f64,
) -> FloatTensor<Autodiff<B, C>> {
    let again = Again::<B> {
        inputs: inputs.each_ref().map(|input| input.id()).to_vec(),
        axes,
        epsilon,
        backend: PhantomData,
    };
    let step = RmsNorm
        .prepare::<C>(inputs.each_ref().map(|input| input.node()))
        .memory_bound()
        .retro_forward(again)
        .parents(&inputs)
        .stateful();
    match step {
        OpsKind::Tracked(mut step) => {
            let saved = inputs.each_ref().map(|input| step.checkpoint(input)).to_vec();
            let (x, gamma) = split(inputs.map(|input| input.into_primitive()));
            let output = B::rms_norm_forward(x, gamma, axes, epsilon);
            let inverse_rms = output.inverse_rms;
            step.finish(State { saved, inverse_rms, axes }, output.y)
        }
        OpsKind::UnTracked(step) => {
            let (x, gamma) = split(inputs.map(|input| input.into_primitive()));
            step.finish(B::rms_norm(x, gamma, axes, epsilon))
        }
    }
}

fn split<B: Backend>(
    inputs: impl IntoIterator<Item = FloatTensor<B>>,
) -> (FloatTensor<B>, OptionalTensor<B>) {
    let mut inputs = inputs.into_iter();
    let x = inputs.next().expect("the input comes first");
    (x, inputs.next().into())
}

/// The step of `[x]` or `[x, gamma]`.
#[derive(Debug)]
struct RmsNorm;

#[derive(Debug, Clone)]
struct State<T> {
    /// The inputs, shared with the graph.
    saved: Vec<NodeId>,
    inverse_rms: T,
    axes: usize,
}

impl<B: RmsNormOps, const N: usize> Backward<B, N> for RmsNorm {
    type State = State<FloatTensor<B>>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let State { saved, inverse_rms, axes } = ops.state;
        let grad = grads.consume::<B>(&ops.node);
        let inputs = saved.into_iter().map(|id| checkpointer.retrieve_node_output(id));
        let (x, gamma) = split(inputs.collect::<Vec<_>>());
        let mut parents = ops.parents.into_iter();
        let [x_parent, gamma_parent] = [(); 2].map(|()| parents.next().flatten());

        let (wants_x, wants_gamma) = (x_parent.is_some(), gamma_parent.is_some());
        let gradients =
            B::rms_norm_backward(x, gamma, inverse_rms, grad, axes, wants_x, wants_gamma);

        for (parent, gradient) in [(x_parent, gradients.x), (gamma_parent, gradients.gamma)] {
            if let (Some(parent), Some(gradient)) = (parent, gradient.into_option()) {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

/// Recomputes the output under gradient checkpointing.
#[derive(Debug)]
struct Again<B> {
    inputs: Vec<NodeId>,
    axes: usize,
    epsilon: f64,
    backend: PhantomData<B>,
}

impl<B: RmsNormOps> RetroForward for Again<B> {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let inputs = self.inputs.iter().map(|id| states.get_state::<FloatTensor<B>>(id));
        let (x, gamma) = split(inputs.collect::<Vec<_>>());
        states.save(out_node, B::rms_norm(x, gamma, self.axes, self.epsilon));
    }
}
