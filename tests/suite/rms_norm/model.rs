//! A model trained with this crate's module goes as it goes with `burn::nn`'s.

use crate::{
    deliver::deliver,
    device,
    random::{Random, seed},
    values::{Values, exact},
};
use burn::{
    module::{Module, ModuleDisplay},
    nn::{self, Linear, LinearConfig},
    optim::{GradientsParams, SgdConfig, momentum::MomentumConfig},
    tensor::{
        DType, Device, Tensor,
        activation::{gelu, softmax},
    },
};
use burn_fused::nn as fused;

const WIDTH: usize = 32;
const STEPS: usize = 20;

trait Norm: Module + ModuleDisplay {
    fn new(device: &Device) -> Self;
    fn normalise(&self, x: Tensor<3>) -> Tensor<3>;
}

macro_rules! norm {
    ($($module:ident)::+, $config:path) => {
        impl Norm for $($module)::+ {
            fn new(device: &Device) -> Self {
                <$config>::new(WIDTH).init(device)
            }

            fn normalise(&self, x: Tensor<3>) -> Tensor<3> {
                let (home, away) = (x.device(), self.gamma.device());
                self.forward(x.to_device(&away)).to_device(&home)
            }
        }
    };
}

norm!(fused::RmsNorm, fused::RmsNormConfig);
norm!(nn::RmsNorm, nn::RmsNormConfig);

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
    fn new(device: &Device, norms: &Device) -> Self {
        let linear = |from, to| LinearConfig::new(from, to).init(device);
        Self {
            norms: vec![N::new(norms), N::new(norms)],
            qkv: linear(WIDTH, 3 * WIDTH),
            out: linear(WIDTH, WIDTH),
            up: linear(WIDTH, 2 * WIDTH),
            down: linear(2 * WIDTH, WIDTH),
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let qkv = self.qkv.forward(self.norms[0].normalise(x.clone()));
        let [q, k, v] = [0, 1, 2].map(|i| qkv.clone().narrow(2, i * WIDTH, WIDTH));
        let scores = q.matmul(k.swap_dims(1, 2)) / (WIDTH as f64).sqrt();
        let x = x + self.out.forward(softmax(scores, 2).matmul(v));
        let hidden = self.up.forward(self.norms[1].normalise(x.clone()));
        x + self.down.forward(gelu(hidden))
    }
}

#[derive(Module, Debug)]
struct Model<N: Module> {
    blocks: Vec<Block<N>>,
    norm: N,
}

impl<N: Norm> Model<N> {
    fn new(device: &Device, norms: &Device) -> Self {
        let block = || Block::new(device, norms);
        Self { blocks: vec![block(), block()], norm: N::new(norms) }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let x = self.blocks.iter().fold(x, |x, block| block.forward(x));
        self.norm.normalise(x)
    }
}

/// Descends to `target` and returns the squared error ahead of each step, and the model.
fn train<N: Norm>(mut model: Model<N>, x: &Values, target: &Values, device: &Device) -> Vec<f64> {
    let mut optimizer = SgdConfig::new().with_momentum(Some(MomentumConfig::new())).init();
    let (x, target) = (x.tensor::<3>(device), target.tensor::<3>(device));
    let mut losses = Vec::with_capacity(STEPS);
    for _ in 0..STEPS {
        let error = model.forward(x.clone()) - target.clone();
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

/// Where all but this crate's norms run. Flex, unless the device is fast: Burn times candidates for
/// each product and sum of a CubeCL runtime, minutes on a CPU.
fn home(device: &Device) -> Option<Device> {
    if device::is_fast() {
        return Some(device.clone());
    }
    device::open_named("flex").map_err(|reason| println!("skipped: {reason}")).ok()
}

/// In f32 both modules are right to some 1e-7 of a row. A step carries on the differences of the
/// steps before it and adds those of its own five norms, forwards and backwards: 1e-6 a step is
/// ten times what that comes to.
#[test]
fn losses_follow_burns() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("losses_follow_burns");
    let shape = [4, 8, WIDTH];
    let [x, target] = [(); 2].map(|()| Values::normal(&shape, DType::F32, &mut random));
    let Some(home) = home(&device) else { return };
    home.seed(random.next());
    let (home, away) = (home.autodiff(), device.autodiff());
    let burns = Model::<nn::RmsNorm>::new(&home, &home);
    let own = Model::<fused::RmsNorm>::new(&home, &away).load_record(burns.clone().into_record());
    assert_eq!(own.norm.gamma.device(), away, "the norm runs on another device");
    let expected = train(burns, &x, &target, &home);
    let found = train(own, &x, &target, &home);
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
