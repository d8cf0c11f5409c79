//! A model trained with this crate's modules and softmax goes as it goes with Burn's.

use super::Norm;
use crate::{
    deliver::deliver,
    device,
    random::{Random, seed},
    values::{Values, exact},
};
use burn::{
    module::Module,
    nn::{self, Linear, LinearConfig},
    optim::{GradientsParams, SgdConfig, momentum::MomentumConfig},
    tensor::{
        DType, Device, Tensor,
        activation::{self, gelu},
    },
};
use burn_fused::nn as fused;

const WIDTH: usize = 32;
const STEPS: usize = 20;

/// Along the last dimension.
type Softmax = dyn Fn(Tensor<3>) -> Tensor<3>;

/// Where the norm's parameters are, and back.
fn normalise<N: Norm>(norm: &N, x: Tensor<3>) -> Tensor<3> {
    let home = x.device();
    let [away] = norm.devices().try_into().expect("a norm lies on one device");
    norm.normalise(x.to_device(&away)).to_device(&home)
}

/// Attention of one head and a perceptron, each behind a norm and beside a residual.
#[derive(Module, Debug)]
struct Block<N: Module> {
    norms: Vec<N>,
    qkv: Linear,
    out: Linear,
    up: Linear,
    down: Linear,
}

impl<N: Norm> Block<N> {
    fn new(device: &Device, norm: &impl Fn() -> N) -> Self {
        let linear = |from, to| LinearConfig::new(from, to).init(device);
        Self {
            norms: vec![norm(), norm()],
            qkv: linear(WIDTH, 3 * WIDTH),
            out: linear(WIDTH, WIDTH),
            up: linear(WIDTH, 2 * WIDTH),
            down: linear(2 * WIDTH, WIDTH),
        }
    }

    fn forward(&self, x: Tensor<3>, softmax: &Softmax) -> Tensor<3> {
        let qkv = self.qkv.forward(normalise(&self.norms[0], x.clone()));
        let [q, k, v] = [0, 1, 2].map(|i| qkv.clone().narrow(2, i * WIDTH, WIDTH));
        let scores = q.matmul(k.swap_dims(1, 2)) / (WIDTH as f64).sqrt();
        let x = x + self.out.forward(softmax(scores).matmul(v));
        let hidden = self.up.forward(normalise(&self.norms[1], x.clone()));
        x + self.down.forward(gelu(hidden))
    }
}

#[derive(Module, Debug)]
struct Model<N: Module> {
    blocks: Vec<Block<N>>,
    norm: N,
}

impl<N: Norm> Model<N> {
    fn new(device: &Device, norm: impl Fn() -> N) -> Self {
        let block = || Block::new(device, &norm);
        Self { blocks: vec![block(), block()], norm: norm() }
    }

    fn forward(&self, x: Tensor<3>, softmax: &Softmax) -> Tensor<3> {
        let x = self.blocks.iter().fold(x, |x, block| block.forward(x, softmax));
        normalise(&self.norm, x)
    }
}

/// Descends to `target` and returns the squared error ahead of each step, and the model.
fn train<N: Norm>(
    mut model: Model<N>,
    softmax: &Softmax,
    [x, target]: &[Values; 2],
    device: &Device,
) -> Vec<f64> {
    let mut optimizer = SgdConfig::new().with_momentum(Some(MomentumConfig::new())).init();
    let (x, target) = (x.tensor::<3>(device), target.tensor::<3>(device));
    let mut losses = Vec::with_capacity(STEPS);
    for _ in 0..STEPS {
        let error = model.forward(x.clone(), softmax) - target.clone();
        let errors = exact(&error.clone().into_data());
        losses.push(errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64);
        // The gradient of half the squared error is the error. It is summed here, in f64, and not
        // on the device: Burn's sum may take another order, or none, on each run.
        let gradients = deliver(error.clone(), error.inner()).backward();
        let gradients = GradientsParams::from_grads(gradients, &model);
        model = optimizer.step(1e-4, model, gradients);
    }
    losses
}

/// Where all but this crate's ops run: Burn's products on CUDA are less exact than what is compared,
/// and those of other CubeCL runtimes are tuned for minutes.
fn home() -> Option<Device> {
    device::open_named("flex").map_err(|reason| println!("skipped: {reason}")).ok()
}

/// Trains a model of Burn's parts and one of `N` and `softmax` from the same weights.
///
/// In f32 both are right to some 1e-7 of a row. A step carries on the differences of the steps before
/// it and adds those of its own five norms, or two softmaxes, forwards and backwards: 1e-6 a step is
/// ten times what that comes to.
fn losses_follow_burns<B: Norm, N: Norm>(
    test: &str,
    burns: impl Fn(&Device) -> B,
    own: impl Fn(&Device) -> N,
    softmax: impl Fn(&Device) -> Box<Softmax>,
) {
    let Some(device) = device::open() else { return };
    let mut random = Random::of(test);
    let shape = [4, 8, WIDTH];
    let data = [(); 2].map(|()| Values::normal(&shape, DType::F32, &mut random));
    let Some(home) = home() else { return };
    home.seed(random.next());
    let (home, away) = (home.autodiff(), device.autodiff());
    let burns = Model::new(&home, || burns(&home));
    let own = Model::new(&home, || own(&away)).load_record(burns.clone().into_record());
    let expected = train(burns, &burns_softmax, &data, &home);
    let found = train(own, &softmax(&away), &data, &home);
    println!("{expected:?}");
    assert!(expected[STEPS - 1] < 0.9 * expected[0], "it did not learn: {expected:?}");
    for (step, (expected, found)) in expected.iter().zip(&found).enumerate() {
        let difference = (expected - found).abs() / expected;
        println!("step {step}: {difference:e}");
        assert!(
            difference <= 1e-6 * (step + 1) as f64,
            "step {step}: the losses are {expected} and {found}, {difference:e} apart; \
             BURN_FUSED_SEED={}",
            seed()
        );
    }
}

fn burns_softmax(x: Tensor<3>) -> Tensor<3> {
    activation::softmax(x, 2)
}

#[test]
fn losses_follow_burns_with_rms_norm() {
    losses_follow_burns(
        "losses_follow_burns_with_rms_norm",
        |device| nn::RmsNormConfig::new(WIDTH).init(device),
        |device| fused::RmsNormConfig::new(WIDTH).init(device),
        |_| Box::new(burns_softmax),
    );
}

#[test]
fn losses_follow_burns_with_layer_norm() {
    losses_follow_burns(
        "losses_follow_burns_with_layer_norm",
        |device| nn::LayerNormConfig::new(WIDTH).init(device),
        |device| fused::LayerNormConfig::new(WIDTH).init(device),
        |_| Box::new(burns_softmax),
    );
}

/// Attention by this crate's softmax, the norms by Burn's.
#[test]
fn losses_follow_burns_with_softmax() {
    let burns = |device: &Device| nn::LayerNormConfig::new(WIDTH).init(device);
    losses_follow_burns("losses_follow_burns_with_softmax", burns, burns, |away| {
        let away = away.clone();
        Box::new(move |x| {
            let home = x.device();
            burn_fused::softmax(x.to_device(&away), -1).to_device(&home)
        })
    });
}
