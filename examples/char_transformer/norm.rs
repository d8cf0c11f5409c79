use burn::{
    module::{Module, ModuleDisplay},
    tensor::{Device, Tensor},
};
use clap::ValueEnum;

/// The norm of the transformer's layers.
#[derive(Clone, Copy, ValueEnum)]
pub enum Kind {
    /// RMSNorm, as in Llama
    Rms,
    /// LayerNorm, as in GPT-2
    Layer,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Rms => "RMSNorm",
            Self::Layer => "LayerNorm",
        }
    }
}

/// A norm, with the softmax of the crate that it is from, so that one transformer serves for both
/// crates. A model that need not compare them names `RmsNorm` or `LayerNorm`, calls `softmax`, and
/// has no use for this trait.
pub trait Norm: Module + ModuleDisplay {
    const PACKAGE: &str;

    fn new(d_model: usize, device: &Device) -> Self;
    /// Normalises the last dimension.
    fn forward(&self, x: Tensor<3>) -> Tensor<3>;
    /// Softmax along the last dimension.
    fn softmax(x: Tensor<4>) -> Tensor<4>;
}

macro_rules! norms_of {
    ($package:ident, $softmax:path) => {
        const _: () = {
            // The lines that change.
            use $package::nn::{LayerNorm, LayerNormConfig, RmsNorm, RmsNormConfig};
            use $softmax;

            norms_of!($package, RmsNorm, RmsNormConfig);
            norms_of!($package, LayerNorm, LayerNormConfig);
        };
    };
    ($package:ident, $norm:ident, $config:ident) => {
        impl Norm for $norm {
            const PACKAGE: &str = stringify!($package);

            fn new(d_model: usize, device: &Device) -> Self {
                $config::new(d_model).init(device)
            }

            fn forward(&self, x: Tensor<3>) -> Tensor<3> {
                $norm::forward(self, x)
            }

            fn softmax(x: Tensor<4>) -> Tensor<4> {
                softmax(x, 3)
            }
        }
    };
}
norms_of!(burn_fused, burn_fused::softmax);
norms_of!(burn, burn::tensor::activation::softmax);
