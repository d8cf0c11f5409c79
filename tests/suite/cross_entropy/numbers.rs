//! Losses and gradients beside the oracle.

use super::Inputs;
use crate::{
    compare::Report,
    device,
    op::dtypes,
    oracle::magnitude,
    pairs, property,
    random::Random,
    softmax::Softmax,
    values::{Values, exact, round},
};
use burn::tensor::{DType, Device, IntDType};
use burn_fused::{CrossEntropyOptions, cross_entropy};
use proptest::{option, prelude::*, sample::select};

const PLAIN: CrossEntropyOptions = CrossEntropyOptions { ignore_index: None, label_smoothing: 0.0 };
const SMOOTH: CrossEntropyOptions = CrossEntropyOptions { label_smoothing: 0.1, ..PLAIN };

fn check(inputs: &Inputs, device: &Device, report: &mut Report) {
    report.add(inputs, inputs.check(&inputs.run(device)));
}

/// Vocabularies of models among them.
#[test]
fn every_size() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("every_size"), Report::default());
    let mut shapes =
        vec![[0, 5], [1, 1], [3, 2], [257, 33], [2049, 64], [37, 1000], [5, 32_000], [3, 50_257]];
    if device::is_fast() {
        shapes.extend([[1024, 128_000], [64, 256_000]]);
    }
    for shape in shapes {
        for (weights, options) in [(None, PLAIN), (Some(DType::F32), SMOOTH)] {
            check(
                &Inputs::random(shape, DType::F32, weights, options, &mut random),
                &device,
                &mut report,
            );
        }
    }
    report.finish();
}

#[test]
fn every_type() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("every_type"), Report::default());
    let dtypes = dtypes::<Softmax>(&device);
    let options = [PLAIN, SMOOTH, CrossEntropyOptions { label_smoothing: 1.0, ..PLAIN }];
    let sizes = [dtypes.len(), 3, options.len()];
    for [dtype, weights, option] in pairs::combinations(sizes, &mut random) {
        let (dtype, options) = (dtypes[dtype], options[option]);
        let weights = [None, Some(dtype), Some(DType::F32)][weights];
        let inputs = Inputs::random([19, 1000], dtype, weights, options, &mut random);
        check(&inputs, &device, &mut report);
    }
    report.finish();
}

/// Rows that are left out, also where their logits are not numbers; and targets that are no classes.
#[test]
fn ignored_and_missing() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("ignored_and_missing"), Report::default());
    for ignore_index in [Some(-100), Some(3), Some(1 << 40), None] {
        for label_smoothing in [0.0, 0.2] {
            let options = CrossEntropyOptions { ignore_index, label_smoothing };
            let mut inputs = Inputs::random([9, 77], DType::F32, None, options, &mut random);
            for (row, target) in [(1, -100), (2, 3), (4, 77), (5, -1), (7, -100)] {
                inputs.targets[row] = target;
            }
            inputs.logits.data[7 * 77 + 5] = f64::NAN;
            check(&inputs, &device, &mut report);
        }
    }
    report.finish();
}

#[test]
fn far_and_infinite_logits() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("far_and_infinite_logits"), Report::default());
    let fills: [fn(usize, f64) -> f64; 8] = [
        |_, normal| 1e4 + normal,
        |column, normal| normal + if column == 7 { 1e4 } else { 0.0 },
        |column, normal| if column % 3 == 0 { f64::NEG_INFINITY } else { normal },
        |column, normal| column as f64 * 0.1 + normal,
        |_, normal| 1e30 * normal,
        |column, normal| if column < 2 { -65_504.0 } else { normal },
        |column, normal| if column == 0 { -1e37 } else { normal },
        |column, normal| if column == 0 { 1e37 } else { normal },
    ];
    for fill in fills {
        for columns in [77, 20_000] {
            for options in [PLAIN, SMOOTH] {
                let mut inputs =
                    Inputs::random([5, columns], DType::F32, None, options, &mut random);
                inputs.logits =
                    Values::of(&[5, columns], DType::F32, |i| fill(i % columns, random.normal()));
                // Where some of the logits are far from the others.
                inputs.targets[..2].copy_from_slice(&[0, 7]);
                check(&inputs, &device, &mut report);
            }
        }
    }
    report.finish();
}

/// A row that holds NaN or +∞, or −∞ only, is NaN, and no other.
#[test]
fn not_a_number_stays_in_its_row() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("not_a_number_stays_in_its_row");
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut inputs = Inputs::random([5, 300], DType::F32, None, PLAIN, &mut random);
        let row = &mut inputs.logits.data[600..900];
        if bad == f64::NEG_INFINITY {
            row.fill(bad)
        } else {
            row[17] = bad
        }
        let found = inputs.run(&device);
        let (losses, dlogits) = (exact(&found.losses), exact(&found.dlogits));
        for row in 0..5 {
            let rest = &dlogits[row * 300..(row + 1) * 300];
            assert_eq!(losses[row].is_nan(), row == 2, "loss {row} with {bad}: {}", losses[row]);
            assert_eq!(rest.iter().all(|x| x.is_nan()), row == 2, "gradient {row} with {bad}");
            assert_eq!(rest.iter().any(|x| x.is_nan()), row == 2, "gradient {row} with {bad}");
        }
    }
}

/// Central differences of the losses, each of its row's logits.
#[test]
fn gradients_are_slopes() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("gradients_are_slopes");
    let in_double = dtypes::<Softmax>(&device).contains(&DType::F64);
    let (dtype, step, bound) =
        if in_double { (DType::F64, 1e-4, 1e-6) } else { (DType::F32, 1.0 / 64.0, 4e-3) };
    let mut inputs = Inputs::random([2, 6], dtype, Some(dtype), SMOOTH, &mut random);
    inputs.grads = Values::of(&[2], dtype, |_| 1.0);
    let losses = |logits: &Values| {
        let targets = inputs.targets(&device);
        let weights = inputs.weights(&device);
        exact(&cross_entropy(logits.tensor(&device), targets, weights, SMOOTH).into_data())
    };
    let found = exact(&inputs.run(&device).dlogits);
    for i in 0..12 {
        let moved = |by: f64| {
            let mut logits = inputs.logits.clone();
            logits.data[i] = round(logits.data[i] + by, dtype);
            (losses(&logits)[i / 6], logits.data[i])
        };
        let ((ahead, to), (behind, from)) = (moved(step), moved(-step));
        let slope = (ahead - behind) / (to - from);
        let scale = magnitude(found.iter().copied()).max(1.0);
        assert!((slope - found[i]).abs() <= bound * scale, "{i}: {slope} and {}", found[i]);
    }
}

#[test]
fn any_input() {
    let Some(device) = device::open() else { return };
    let any_dtype = select(dtypes::<Softmax>(&device));
    let dtype = prop_oneof![3 => Just(DType::F32), 1 => any_dtype.clone()];
    let strategy = (
        (0..9usize, prop_oneof![3 => 1..300usize, 1 => 300..6000usize]),
        dtype,
        option::of(any_dtype),
        (option::of(-2..5i64), prop_oneof![Just(0.0), 0.0..1.0f64]),
        prop_oneof![Just(0.0), Just(-300.0), Just(2000.0)],
        any::<u64>(),
    );
    property::check(60, &strategy, |(shape, dtype, weights, options, mean, seed)| {
        let (mut report, mut random) = (Report::default(), Random::from_seed(seed));
        let options = CrossEntropyOptions { ignore_index: options.0, label_smoothing: options.1 };
        let shape = [shape.0, shape.1];
        let mut inputs = Inputs::random(shape, dtype, weights, options, &mut random);
        inputs.logits = Values::of(&shape, dtype, |_| mean + 3.0 * random.normal());
        check(&inputs, &device, &mut report);
        report.into_result()
    });
}

/// Types that do not have the number of classes, or the ignored target.
#[test]
fn narrow_targets() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("narrow_targets"), Report::default());
    for (dtype, classes) in [
        (IntDType::U8, 256),
        (IntDType::U8, 1000),
        (IntDType::I8, 1000),
        (IntDType::I16, 50_257),
        (IntDType::U32, 300),
        (IntDType::I64, 300),
    ] {
        if !device.supports_dtype(dtype) {
            println!("skipped: {} has no {dtype:?}", device::name());
            continue;
        }
        for ignore_index in [Some(-100), Some(1 << 40), Some(7)] {
            let options = CrossEntropyOptions { ignore_index, ..SMOOTH };
            let mut inputs = Inputs::random([9, classes], DType::F32, None, options, &mut random);
            inputs.targets.iter_mut().for_each(|target| *target %= 100);
            inputs.targets[4] = 7;
            let targets = inputs.targets(&device).cast(dtype);
            let found = inputs.run_on(inputs.logits.tensor(&device), targets, &device);
            report.add(format!("{inputs} {dtype:?}"), inputs.check(&found));
        }
    }
    report.finish();
}
