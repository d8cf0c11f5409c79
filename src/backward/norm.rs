mod sum;

use crate::ops::{
    AddNormOutput, NormOps, NormOutput, NormSpec, NormUpstream, NormWanted, OptionalTensor,
};
use burn::{
    backend::{TensorMetadata, tensor::FloatTensor},
    tensor::DType,
};
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

impl<B: NormOps, C: CheckpointStrategy> NormOps for Autodiff<B, C> {
    fn norm(
        x: FloatTensor<Self>,
        gamma: OptionalTensor<Self>,
        beta: OptionalTensor<Self>,
        spec: NormSpec,
    ) -> FloatTensor<Self> {
        let (gamma, beta) = (gamma.into_option(), beta.into_option());
        let call = Call { gamma: gamma.is_some(), spec };
        record_any::<B, C>(x, gamma, beta, call, None)
    }

    fn add_norm(
        x: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        gamma: OptionalTensor<Self>,
        beta: OptionalTensor<Self>,
        spec: NormSpec,
    ) -> AddNormOutput<Self> {
        let (gamma, beta) = (gamma.into_option(), beta.into_option());
        let call = Call { gamma: gamma.is_some(), spec };
        sum::record(x, residual, gamma, beta, call)
    }
}

/// What a call is, beside its inputs: x, gamma if it has one, beta if there is one more.
#[derive(Debug, Clone, Copy)]
struct Call {
    gamma: bool,
    spec: NormSpec,
}

impl Call {
    /// Items that belong to the inputs, as those of x, gamma and beta.
    fn assign<T>(self, items: impl IntoIterator<Item = T>) -> (T, Option<T>, Option<T>) {
        let mut items = items.into_iter();
        let x = items.next().expect("the input comes first");
        (x, if self.gamma { items.next() } else { None }, items.next())
    }

    fn forward<B: NormOps>(self, inputs: Vec<FloatTensor<B>>) -> FloatTensor<B> {
        let (x, gamma, beta) = self.assign(inputs);
        B::norm(x, gamma.into(), beta.into(), self.spec)
    }
}

/// [`record`] for the inputs that there are.
fn record_any<B: NormOps, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    gamma: Option<FloatTensor<Autodiff<B, C>>>,
    beta: Option<FloatTensor<Autodiff<B, C>>>,
    call: Call,
    done: Option<NormOutput<B>>,
) -> FloatTensor<Autodiff<B, C>> {
    match (gamma, beta) {
        (None, None) => record::<B, C, 1>([x], call, done),
        (Some(parameter), None) | (None, Some(parameter)) => {
            record::<B, C, 2>([x, parameter], call, done)
        }
        (Some(gamma), Some(beta)) => record::<B, C, 3>([x, gamma, beta], call, done),
    }
}

/// Runs the forward pass, if it is not `done`, and records its step.
fn record<B: NormOps, C: CheckpointStrategy, const N: usize>(
    inputs: [FloatTensor<Autodiff<B, C>>; N],
    call: Call,
    done: Option<NormOutput<B>>,
) -> FloatTensor<Autodiff<B, C>> {
    let again = Again::<B> {
        inputs: inputs.each_ref().map(|input| input.id()).to_vec(),
        call,
        backend: PhantomData,
    };
    let step = Step
        .prepare::<C>(inputs.each_ref().map(|input| input.node()))
        .memory_bound()
        .retro_forward(again)
        .parents(&inputs)
        .stateful();
    match step {
        OpsKind::Tracked(mut step) => {
            let (x, gamma, _) = call.assign(inputs.each_ref());
            let saved = [Some(x), gamma].into_iter().flatten();
            let saved = saved.map(|input| step.checkpoint(input)).collect();
            let (x, gamma, beta) = call.assign(inputs.map(|input| input.into_primitive()));
            let beta_dtype = beta.as_ref().map(|beta| beta.dtype());
            let output =
                done.unwrap_or_else(|| B::norm_forward(x, gamma.into(), beta.into(), call.spec));
            let statistics = output.statistics;
            step.finish(State { saved, beta_dtype, statistics, call }, output.y)
        }
        OpsKind::UnTracked(step) => {
            let inputs = inputs.map(|input| input.into_primitive()).into();
            step.finish(call.forward::<B>(inputs))
        }
    }
}

/// The step of `[x]` and, after it, whichever of gamma and beta the call has.
#[derive(Debug)]
struct Step;

#[derive(Debug, Clone)]
struct State<T> {
    /// x and gamma, shared with the graph.
    saved: Vec<NodeId>,
    beta_dtype: Option<DType>,
    statistics: T,
    call: Call,
}

impl<B: NormOps, const N: usize> Backward<B, N> for Step {
    type State = State<FloatTensor<B>>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let State { saved, beta_dtype, statistics, call } = ops.state;
        let grad = grads.consume::<B>(&ops.node);
        let inputs = saved.into_iter().map(|id| checkpointer.retrieve_node_output(id));
        let (x, gamma, _) = call.assign(inputs.collect::<Vec<FloatTensor<B>>>());
        let (x_parent, gamma_parent, beta_parent) = call.assign(ops.parents);
        let (gamma_parent, beta_parent) = (gamma_parent.flatten(), beta_parent.flatten());

        let wanted = NormWanted {
            x: x_parent.is_some(),
            gamma: gamma_parent.is_some(),
            beta: beta_parent.as_ref().and(beta_dtype),
        };
        let (gamma, upstream) = (gamma.into(), NormUpstream { y: grad, x: OptionalTensor::None });
        let gradients = B::norm_backward(x, gamma, statistics, upstream, call.spec, wanted);

        for (parent, gradient) in [
            (x_parent, gradients.x),
            (gamma_parent, gradients.gamma),
            (beta_parent, gradients.beta),
        ] {
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
    call: Call,
    backend: PhantomData<B>,
}

impl<B: NormOps> RetroForward for Again<B> {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let inputs = self.inputs.iter().map(|id| states.get_state::<FloatTensor<B>>(id));
        let inputs = inputs.collect::<Vec<_>>();
        states.save(out_node, self.call.forward::<B>(inputs));
    }
}
