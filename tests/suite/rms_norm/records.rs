use crate::nn::records::{Pair, WIDTH, record_tests};
use burn::nn;
use burn_fused::nn::{RmsNorm, RmsNormConfig};

const PAIR: Pair<RmsNorm, nn::RmsNorm> = Pair {
    own: |device| RmsNormConfig::new(WIDTH).init(device),
    burns: |device| nn::RmsNormConfig::new(WIDTH).init(device),
};

record_tests!(PAIR, ["norm.weight"]);
