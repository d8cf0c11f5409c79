//! Transformer blocks of these ops and Burn's own modules, to use or to take as an example of how they fit
//! together: [`PreNormBlock`] as in GPT-2, and [`LlamaBlock`].
//!
//! Blocks pass on a [`ResidualStream`], whose additions are made by the norms that follow them:
//!
//! ```
//! use burn::tensor::{Device, Distribution, Tensor};
//! use burn_fused::nn::{LayerNormConfig, transformer::{PreNormBlockConfig, ResidualStream}};
//!
//! let device = Device::default();
//! let config = PreNormBlockConfig::new(32, 4, 128).with_causal(true).with_dropout(0.0);
//! let blocks = [config.init(&device), config.init(&device)];
//! let norm = LayerNormConfig::new(32).init(&device);
//!
//! let x = Tensor::<3>::random([2, 8, 32], Distribution::Default, &device);
//! let stream = blocks.iter().fold(ResidualStream::from(x), |x, block| block.forward(x, None));
//! let (y, _) = stream.normalise(&norm);
//! assert_eq!(y.dims(), [2, 8, 32]);
//! ```

mod attention;
mod llama;
mod pre_norm;
mod residual;

pub use attention::*;
pub use llama::*;
pub use pre_norm::*;
pub use residual::*;
