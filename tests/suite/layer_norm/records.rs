use crate::nn::records::{Pair, WIDTH};
use burn::nn;
use burn_fused::nn::{LayerNorm, LayerNormConfig};

type Norms = Pair<LayerNorm, nn::LayerNorm>;

const WITH_BIAS: Norms = Pair {
    own: |device| LayerNormConfig::new(WIDTH).init(device),
    burns: |device| nn::LayerNormConfig::new(WIDTH).init(device),
};

const WITHOUT: Norms = Pair {
    own: |device| LayerNormConfig::new(WIDTH).with_bias(false).init(device),
    burns: |device| nn::LayerNormConfig::new(WIDTH).with_bias(false).init(device),
};

mod with_bias {
    use crate::nn::records::record_tests;

    record_tests!(super::WITH_BIAS, ["norm.bias", "norm.weight"]);
}

mod without_bias {
    use crate::nn::records::record_tests;

    record_tests!(super::WITHOUT, ["norm.weight"]);
}
