//! What Burn's own tests expect of its RmsNorm (R/burn-nn-0.22.1/src/modules/norm/rms.rs).

use crate::{device, values::exact};
use burn::tensor::Tensor;
use burn_fused::{
    nn::{RmsNorm, RmsNormConfig},
    rms_norm,
};

const EXPECTED: [f64; 9] = [0.0, 0.7746, 1.5492, 0.7348, 0.9798, 1.2247, 0.8514, 0.9933, 1.1352];

fn assert_published(y: Tensor<2>) {
    let found = exact(&y.into_data());
    for (expected, found) in EXPECTED.iter().zip(&found) {
        // Half of the last decimal that is printed.
        assert!((expected - found).abs() <= 5e-5, "expected {EXPECTED:?}, found {found:?}");
    }
    assert_eq!(found.len(), EXPECTED.len());
}

#[test]
fn rows_of_three() {
    let Some(device) = device::open() else { return };
    let values: [f32; 9] = std::array::from_fn(|i| i as f32);
    let x = Tensor::<1>::from_floats(values, &device).reshape([3, 3]);
    let module: RmsNorm = RmsNormConfig::new(3).with_epsilon(1e-5).init(&device);
    assert_published(module.forward(x.clone()));
    assert_published(rms_norm(x, None::<Tensor<1>>, 1e-5));
}
