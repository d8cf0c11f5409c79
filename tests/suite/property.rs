//! Properties: they are tried on cases that come up at random; one that fails is shrunk.

use crate::{
    device, pairs,
    random::{Random, seed},
};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use std::{env, thread};

/// The cases of each property: `BURN_FUSED_CASES`, or `few`, for which there is time in a run of all tests.
fn cases(few: u32) -> u32 {
    match env::var("BURN_FUSED_CASES") {
        Ok(cases) => cases.parse().expect("BURN_FUSED_CASES must be an unsigned integer"),
        Err(_) => few,
    }
}

/// The cases of a property of which each may be a kernel of its own.
pub fn cases_of_kernels() -> u32 {
    if pairs::all() { 120 } else { 40 }
}

/// Tries whether what `holds` says is so for whatever `strategy` gives, in `few` cases or as many as the
/// environment asks for. Panics with the smallest case found for which it is not, and with how to repeat
/// that.
#[track_caller]
pub fn check<S: Strategy>(few: u32, strategy: &S, holds: impl Fn(S::Value) -> Result<(), String>) {
    let name = thread::current().name().expect("tests run in threads named after them").to_owned();
    let (mut random, cases) = (Random::of(&name), cases(few));
    let seed_of_cases = std::array::from_fn::<_, 4, _>(|_| random.next().to_le_bytes()).concat();
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed_of_cases);
    let result = TestRunner::new_with_rng(config, rng)
        .run(strategy, |case| holds(case).map_err(TestCaseError::fail));
    println!("{cases} cases");
    if let Err(error) = result {
        let (seed, device) = (seed(), device::name());
        panic!(
            "{error}\nrepeat it with BURN_FUSED_SEED={seed} BURN_FUSED_CASES={cases} \
             scripts/test --device {device} -- --exact {name}"
        );
    }
}
