//! The ops on Burn's autodiff graph: what each step saves, and which gradients it asks for.

mod attention_softmax;
mod cross_entropy;
mod norm;
mod softmax;
