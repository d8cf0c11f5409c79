//! Many steps leave the device as they found it.

use crate::{
    compare::Report,
    device,
    memory::{self, Memory},
    op::{Data, Op},
    random::Random,
};
use burn::tensor::DType;
use std::env;

/// The steps: `BURN_FUSED_STEPS`, or as many as there is time for in a run of all tests.
fn steps() -> usize {
    match env::var("BURN_FUSED_STEPS") {
        Ok(steps) => steps.parse().expect("BURN_FUSED_STEPS must be an unsigned integer"),
        Err(_) if device::is_fast() => 10_000,
        Err(_) => 100,
    }
}

/// The same bits at each step, and no more memory reserved or in use at the end than soon after the start.
pub fn many_steps<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("many_steps"), Report::default());
    let types = (DType::F32, Some(DType::F32));
    let data = Data::random::<O>(&[16, 96], 1, types.0, types.1, &mut random);
    let first = data.run(op, &device);
    data.check(op, &first, &mut report, "the first step");
    let steps = steps();
    assert!(steps >= 10, "there are tenths to compare");
    let mut round = || {
        // The most in the second tenth, the least in the last one: from step to step it varies, as buffers
        // are freed late.
        let (mut before, mut after) = (vec![], vec![]);
        for step in 0..steps {
            report.add(format!("step {step}"), data.run(op, &device).same_bits::<O>(&first));
            match step * 10 / steps {
                1 => before.extend(memory::of_this_thread()),
                9 => after.extend(memory::of_this_thread()),
                _ => {}
            }
        }
        let in_use = |memory: &Memory| memory.in_use;
        let reserved = |memory: &Memory| memory.reserved;
        let kinds = [("in use", in_use as fn(&Memory) -> u64), ("reserved", reserved)];
        kinds.map(|(what, bytes)| {
            match (before.iter().map(bytes).max(), after.iter().map(bytes).min()) {
                (Some(before), Some(after)) if after > before => {
                    Err(format!("{after} bytes {what} at the end, {before} at the start"))
                }
                (Some(_), Some(_)) => Ok(()),
                _ => {
                    println!("{} does not tell what memory is {what}", device::name());
                    Ok(())
                }
            }
        })
    };
    // Now and then another test's thread has the same stream and takes memory there; a leak is there each time.
    let rounds = (0..3).map(|_| round().into_iter().collect::<Result<Vec<_>, _>>());
    let growth: Vec<_> = rounds.map_while(Result::err).collect();
    assert!(growth.len() < 3, "memory grew in every round: {growth:?}");
    report.finish();
}
