//! The norm of a sum, which has two outputs, where a step of Burn's has one: the sum is a hidden node, and both
//! outputs are its children. Their steps run before its own, and leave it the gradients that reached them.

use super::{Call, record_any};
use crate::ops::{
    AddNormForward, AddNormOutput, NormOps, NormOutput, NormUpstream, NormWanted, OptionalTensor,
};
use burn::{
    backend::{AutodiffBackend, TensorMetadata, tensor::FloatTensor},
    tensor::{DType, FloatDType},
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
use std::sync::{Arc, Mutex, PoisonError};

pub(super) fn record<B: NormOps, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    residual: FloatTensor<Autodiff<B, C>>,
    gamma: Option<FloatTensor<Autodiff<B, C>>>,
    beta: Option<FloatTensor<Autodiff<B, C>>>,
    call: Call,
) -> AddNormOutput<Autodiff<B, C>> {
    let tracked = |tensor: &FloatTensor<Autodiff<B, C>>| tensor.is_tracked();
    let parameters = [&gamma, &beta].into_iter().flatten().any(tracked);
    match (tracked(&x) || tracked(&residual), parameters) {
        (false, false) => {
            let [x, residual] = [x, residual].map(|tensor| tensor.into_primitive());
            let [gamma, beta] = [gamma, beta].map(|p| p.map(|p| p.into_primitive()).into());
            let outputs = B::add_norm(x, residual, gamma, beta, call.spec);
            let [y, sum] = [outputs.y, outputs.sum].map(Autodiff::<B, C>::from_inner);
            AddNormOutput { y, sum }
        }
        // As in a first block on frozen embeddings: the sum is not tracked.
        (false, true) => {
            let [x, residual] = [x, residual].map(|tensor| tensor.into_primitive());
            let inner = |p: &Option<FloatTensor<Autodiff<B, C>>>| {
                p.clone().map(|p| p.into_primitive()).into()
            };
            let (own_gamma, own_beta) = (inner(&gamma), inner(&beta));
            let AddNormForward { y, sum, statistics } =
                B::add_norm_forward(x, residual, own_gamma, own_beta, call.spec);
            let sum = Autodiff::<B, C>::from_inner(sum);
            let done = Some(NormOutput { y, statistics });
            let y = record_any::<B, C>(sum.clone(), gamma, beta, call, done);
            AddNormOutput { y, sum }
        }
        _ => match (gamma, beta) {
            (None, None) => tracked_sum::<B, C, 2>([residual, x], call),
            (Some(parameter), None) | (None, Some(parameter)) => {
                tracked_sum::<B, C, 3>([residual, x, parameter], call)
            }
            (Some(gamma), Some(beta)) => tracked_sum::<B, C, 4>([residual, x, gamma, beta], call),
        },
    }
}

/// Records the sum, and both outputs behind it. The inputs are the residual, and then the call's.
fn tracked_sum<B: NormOps, C: CheckpointStrategy, const N: usize>(
    inputs: [FloatTensor<Autodiff<B, C>>; N],
    call: Call,
) -> AddNormOutput<Autodiff<B, C>> {
    let ids = inputs.each_ref().map(|input| input.id()).to_vec();
    let again = Add::<B> { inputs: ids, call, backend: PhantomData };
    let step = Sum
        .prepare::<C>(inputs.each_ref().map(|input| input.node()))
        .memory_bound()
        .retro_forward(again)
        .parents(&inputs)
        .stateful();
    let OpsKind::Tracked(step) = step else { unreachable!("x or the residual is tracked") };
    let mut inputs = inputs.map(|input| input.into_primitive()).into_iter();
    let residual = inputs.next().expect("the residual comes first");
    let (x, gamma, beta) = call.assign(inputs);
    let parameters = Parameters { gamma, beta };
    let Parameters { gamma, beta } = parameters.clone();
    let AddNormForward { y, sum, statistics } =
        B::add_norm_forward(x, residual, gamma.into(), beta.into(), call.spec);

    let arrived = Arc::new(Mutex::new(Arrived { y: None, sum: None }));
    let beta_dtype = parameters.beta.as_ref().map(|beta| beta.dtype());
    let gamma = parameters.gamma.clone();
    let state = SumState { gamma, beta_dtype, statistics, arrived: arrived.clone(), call };
    let hidden = step.finish(state, sum.clone());

    let again = Same::<B> { of: hidden.id(), backend: PhantomData };
    let step = ToSum
        .prepare::<C>([hidden.node()])
        .memory_bound()
        .retro_forward(again)
        .parents([&hidden])
        .stateful();
    let OpsKind::Tracked(step) = step else { unreachable!("the sum is tracked") };
    let sum = step.finish(arrived.clone(), sum);

    let again = Normalize::<B> { sum: hidden.id(), parameters, call };
    let step = ToNorm
        .prepare::<C>([hidden.node()])
        .memory_bound()
        .retro_forward(again)
        .parents([&hidden])
        .stateful();
    let OpsKind::Tracked(mut step) = step else { unreachable!("the sum is tracked") };
    let saved = step.checkpoint(&hidden);
    let y = step.finish((saved, arrived), y);
    AddNormOutput { y, sum }
}

/// What reached the outputs.
#[derive(Debug)]
struct Arrived<T> {
    /// The gradient of the normalised sum, and the sum.
    y: Option<(T, T)>,
    sum: Option<T>,
}

type Arrivals<T> = Arc<Mutex<Arrived<T>>>;

fn arrive<T>(at: &Arrivals<T>, arrival: impl FnOnce(&mut Arrived<T>)) {
    arrival(&mut at.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Gamma and beta, which are small: kept as they are, checkpointing or not.
#[derive(Debug, Clone)]
struct Parameters<T> {
    gamma: Option<T>,
    beta: Option<T>,
}

/// The step of the sum as an output.
#[derive(Debug)]
struct ToSum;

impl<B: NormOps> Backward<B, 1> for ToSum {
    type State = Arrivals<FloatTensor<B>>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        arrive(&ops.state, |arrived| arrived.sum = Some(grad));
    }
}

/// The step of the normalised sum.
#[derive(Debug)]
struct ToNorm;

impl<B: NormOps> Backward<B, 1> for ToNorm {
    type State = (NodeId, Arrivals<FloatTensor<B>>);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (sum, arrivals) = ops.state;
        let grad = grads.consume::<B>(&ops.node);
        let sum = checkpointer.retrieve_node_output(sum);
        arrive(&arrivals, |arrived| arrived.y = Some((grad, sum)));
    }
}

/// The step of `[residual, x]` and, after them, whichever of gamma and beta the call has.
#[derive(Debug)]
struct Sum;

#[derive(Debug, Clone)]
struct SumState<T> {
    gamma: Option<T>,
    beta_dtype: Option<DType>,
    statistics: T,
    arrived: Arrivals<T>,
    call: Call,
}

impl<B: NormOps, const N: usize> Backward<B, N> for Sum {
    type State = SumState<FloatTensor<B>>;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let SumState { gamma, beta_dtype, statistics, arrived, call } = ops.state;
        let mut parents = ops.parents.into_iter();
        let residual_parent = parents.next().expect("the residual comes first");
        let (x_parent, gamma_parent, beta_parent) = call.assign(parents);
        let (gamma_parent, beta_parent) = (gamma_parent.flatten(), beta_parent.flatten());
        let mut arrivals = (None, None);
        arrive(&arrived, |arrived| arrivals = (arrived.y.take(), arrived.sum.take()));

        let (dx, dgamma, dbeta) = match arrivals {
            (Some((grad, sum)), elsewhere) => {
                let wanted = NormWanted {
                    x: true,
                    gamma: gamma_parent.is_some(),
                    beta: beta_parent.as_ref().and(beta_dtype),
                };
                let upstream = NormUpstream { y: grad, x: elsewhere.into() };
                let gamma = gamma.into();
                let gradients =
                    B::norm_backward(sum, gamma, statistics, upstream, call.spec, wanted);
                let [dx, dgamma, dbeta] = [gradients.x, gradients.gamma, gradients.beta];
                (dx.into_option(), dgamma.into_option(), dbeta.into_option())
            }
            // Steps behind the parameters ask for their gradient, although only the sum was used.
            (None, Some(elsewhere)) => {
                let row = call.spec.parameter(&elsewhere.shape());
                let device = elsewhere.device();
                let zeros =
                    |dtype: DType| B::float_zeros(row.clone(), &device, FloatDType::from(dtype));
                let dgamma = gamma.filter(|_| gamma_parent.is_some());
                let dgamma = dgamma.map(|gamma| zeros(gamma.dtype()));
                let dbeta = beta_parent.as_ref().and(beta_dtype).map(zeros);
                (Some(elsewhere), dgamma, dbeta)
            }
            (None, None) => unreachable!("a step runs after one of those behind it"),
        };

        for (parent, gradient) in [
            (residual_parent, dx.clone()),
            (x_parent, dx),
            (gamma_parent, dgamma),
            (beta_parent, dbeta),
        ] {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

/// Recomputes the sum under gradient checkpointing, by the kernel that computed it: Burn's addition may be fused
/// with what computes its terms, and round once where the kernel's were rounded before.
#[derive(Debug)]
struct Add<B> {
    /// The node's parents, of which each has to be taken.
    inputs: Vec<NodeId>,
    call: Call,
    backend: PhantomData<B>,
}

impl<B: NormOps> RetroForward for Add<B> {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let mut inputs = self.inputs.iter().map(|id| states.get_state::<FloatTensor<B>>(id));
        let residual = inputs.next().expect("the residual comes first");
        let x = inputs.next().expect("x is the second");
        inputs.for_each(drop);
        let none = || OptionalTensor::None;
        let outputs = B::add_norm(x, residual, none(), none(), self.call.spec);
        states.save(out_node, outputs.sum);
    }
}

/// Gives the sum as an output again.
#[derive(Debug)]
struct Same<B> {
    of: NodeId,
    backend: PhantomData<B>,
}

impl<B: NormOps> RetroForward for Same<B> {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let sum = states.get_state::<FloatTensor<B>>(&self.of);
        states.save(out_node, sum);
    }
}

/// Normalises the sum again.
#[derive(Debug)]
struct Normalize<B: NormOps> {
    sum: NodeId,
    parameters: Parameters<FloatTensor<B>>,
    call: Call,
}

impl<B: NormOps> RetroForward for Normalize<B> {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let sum = states.get_state::<FloatTensor<B>>(&self.sum);
        let Parameters { gamma, beta } = self.parameters.clone();
        let y = B::norm(sum, gamma.into(), beta.into(), self.call.spec);
        states.save(out_node, y);
    }
}
