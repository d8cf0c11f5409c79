use super::LayerNorm;
use crate::{
    device,
    errors::{norm_errors, refuses},
};
use burn::tensor::Tensor;
use burn_fused::FusedError;

norm_errors!(LayerNorm);

/// A right `gamma` does not excuse `beta`, and of two that are wrong the first is told.
#[test]
fn both_parameters() {
    let Some(device) = device::open() else { return };
    let error = |argument, found| FusedError::Shape {
        op: "layer_norm",
        argument,
        expected: vec![4],
        found: vec![found],
    };
    let parameters =
        |sizes: [usize; 2]| sizes.map(|size| Some(Tensor::<1>::ones([size], &device))).to_vec();
    let x = Tensor::<2>::ones([3, 4], &device);
    let op = LayerNorm::default();
    let message = "`beta` must have the shape [4], found [5]";
    refuses(op, x.clone(), parameters([4, 5]), error("beta", 5), message);
    let message = "`gamma` must have the shape [4], found [6]";
    refuses(op, x, parameters([6, 5]), error("gamma", 6), message);
}
