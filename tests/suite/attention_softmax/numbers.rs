//! Outputs and gradients beside the oracle.

use super::{Inputs, Mask, PLAIN};
use crate::{
    compare::Report,
    device,
    op::dtypes,
    oracle::magnitude,
    property,
    random::Random,
    softmax::Softmax,
    values::{Values, exact, round, ulp},
};
use burn::tensor::{DType, Device};
use burn_fused::{AttentionSoftmaxOptions, attention_softmax};
use proptest::{option, prelude::*, sample::select};

const SCALED: AttentionSoftmaxOptions = AttentionSoftmaxOptions { scale: 0.3, causal: None };

fn check<const D: usize>(inputs: &Inputs, device: &Device, report: &mut Report) {
    report.add(inputs, inputs.check(&inputs.run::<D>(device)));
}

/// All that there is, alone and together.
#[test]
fn combinations() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("combinations"), Report::default());
    let shape = [2, 3, 9, 70];
    for causal in [None, Some(0), Some(61)] {
        for (mask, bias) in [(false, false), (true, false), (false, true), (true, true)] {
            let options = AttentionSoftmaxOptions { causal, ..SCALED };
            let mut inputs = Inputs::random(&shape, DType::F32, options, &mut random);
            if mask {
                inputs = inputs.with_mask(&shape, &mut random);
            }
            if bias {
                inputs = inputs.with_bias(&shape, DType::F32, &mut random);
            }
            check::<4>(&inputs, &device, &mut report);
        }
    }
    report.finish();
}

/// Rows from one key to more than are held in registers.
#[test]
fn every_length() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("every_length"), Report::default());
    let mut shapes = vec![[3, 1], [2, 2], [65, 33], [128, 128], [5, 1000], [3, 20_003]];
    if device::is_fast() {
        shapes.extend([[4096, 4096], [5, 4095], [16, 131_072]]);
    }
    for shape in shapes {
        let options = AttentionSoftmaxOptions { scale: 0.125, causal: Some(shape[1] / 2) };
        let inputs = Inputs::random(&shape, DType::F32, options, &mut random);
        let inputs = inputs.with_mask(&[1, shape[1]], &mut random);
        check::<2>(&inputs.with_bias(&shape, DType::F32, &mut random), &device, &mut report);
    }
    report.finish();
}

#[test]
fn every_type() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("every_type"), Report::default());
    let shape = [4, 19, 64];
    let dtypes = dtypes::<Softmax>(&device);
    for dtype in dtypes.iter().copied() {
        for bias in [dtype, DType::F32] {
            let options = AttentionSoftmaxOptions { causal: Some(45), ..SCALED };
            let inputs = Inputs::random(&shape, dtype, options, &mut random);
            let inputs = inputs.with_mask(&[4, 1, 64], &mut random);
            let inputs = inputs.with_bias(&[1, 19, 64], bias, &mut random);
            check::<3>(&inputs, &device, &mut report);
        }
    }
    report.finish();
}

/// Masks and biases with dimensions of 1, and of any rank.
#[test]
fn broadcasting() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("broadcasting"), Report::default());
    let shape = [2, 3, 5, 32];
    for pattern in 0..16 {
        let own = |pattern: usize| -> Vec<usize> {
            (0..4).map(|dim| if pattern >> dim & 1 == 1 { 1 } else { shape[dim] }).collect()
        };
        let inputs = Inputs::random(&shape, DType::F32, SCALED, &mut random);
        let inputs = inputs.with_mask(&own(15 - pattern), &mut random);
        let inputs = inputs.with_bias(&own(pattern), DType::F32, &mut random);
        check::<4>(&inputs, &device, &mut report);
    }
    let options = AttentionSoftmaxOptions { causal: Some(20), ..SCALED };
    let one = Inputs::random(&[32], DType::F32, options, &mut random);
    let one = one.with_mask(&[32], &mut random).with_bias(&[1], DType::F32, &mut random);
    check::<1>(&one, &device, &mut report);
    report.finish();
}

/// Sums of many rows' gradients: of a bias for all of them.
#[test]
fn bias_of_many_rows() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("bias_of_many_rows"), Report::default());
    for dtype in dtypes::<Softmax>(&device) {
        let inputs = Inputs::random(&[300, 4, 33], dtype, SCALED, &mut random);
        check::<3>(&inputs.with_bias(&[1, 4, 33], dtype, &mut random), &device, &mut report);
    }
    report.finish();
}

/// Rows of which nothing is left, by whichever way, are zeros and have zero gradients.
#[test]
fn nothing_left() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("nothing_left");
    let dtype = DType::F32;
    for columns in [33, 64, 20_000] {
        let shape = [4, columns];
        let mut inputs = Inputs::random(&shape, dtype, SCALED, &mut random);
        let mut mask = Mask { shape: shape.to_vec(), data: vec![false; 4 * columns] };
        mask.data[columns..2 * columns].fill(true);
        inputs.mask = Some(mask);
        let mut bias = Values::normal(&shape, dtype, &mut random);
        bias.data[2 * columns..3 * columns].fill(f64::NEG_INFINITY);
        inputs.bias = Some(bias);
        // What is left out may be anything.
        inputs.x.data[columns + 3] = f64::NAN;
        inputs.x.data[columns + 4] = f64::INFINITY;
        let found = inputs.run::<2>(&device);
        let verdicts: Result<Vec<_>, _> = inputs.check(&found).into_iter().collect();
        verdicts.unwrap();
        for data in [Some(&found.y), found.dx.as_ref(), found.dbias.as_ref()] {
            let values = exact(data.unwrap());
            for (row, values) in values.chunks_exact(columns).enumerate() {
                let zero = values.iter().all(|v| *v == 0.0);
                assert_eq!(zero, row == 1 || row == 2, "row {row} of {columns}");
            }
        }
    }
}

/// The least finite number, which many use as a mask, is one: where all have it, all are alike.
#[test]
fn finite_masks_are_biases() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("finite_masks_are_biases"), Report::default());
    for columns in [40, 20_000] {
        let shape = [3, columns];
        let mut inputs = Inputs::random(&shape, DType::F32, PLAIN, &mut random);
        let least = f64::from(f32::MIN);
        let of_row =
            |i: usize| [least, -1e4, if i.is_multiple_of(3) { least } else { 0.0 }][i / columns];
        inputs.bias = Some(Values::of(&shape, DType::F32, of_row));
        inputs.x.data[..columns].fill(0.0);
        check::<2>(&inputs, &device, &mut report);
    }
    report.finish();
}

/// Masks as large as many are in use, on rows of which they are all: those that leave numbers to tell scores by do that,
/// and beyond all that is asked is that shares are shares.
#[test]
fn whole_rows_of_finite_masks() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("whole_rows_of_finite_masks"), Report::default());
    for dtype in dtypes::<Softmax>(&device) {
        for columns in [5, 64, 20_000] {
            for bias in [-1e3, -1e4, -1e5, -1e6, -1e7, -1e9, 1e9, -1e18, f64::from(f32::MIN)] {
                let scaled = if columns == 64 { SCALED } else { PLAIN };
                let inputs = Inputs::random(&[3, columns], dtype, scaled, &mut random);
                let biases = Values::of(&[1, columns], dtype, |_| bias);
                if biases.data[0].is_infinite() {
                    continue;
                }
                let inputs = Inputs { bias: Some(biases), ..inputs };
                let found = inputs.run::<2>(&device);
                if bias.abs() <= 1e6 {
                    report.add(&inputs, inputs.check(&found));
                }
                for (row, y) in exact(&found.y).chunks_exact(columns).enumerate() {
                    let total: f64 = y.iter().sum();
                    let off = columns as f64 * ulp(1.0 / columns as f64, dtype);
                    let shares = y.iter().all(|y| (0.0..=1.0).contains(y));
                    assert!(shares && (total - 1.0).abs() <= 1e-5 + off, "{inputs} {bias}: {row}");
                    if bias.abs() > 1e30 && dtype != DType::F64 {
                        let alike = y.windows(2).all(|pair| pair[0] == pair[1]);
                        assert!(alike, "{inputs} {bias}: {row} {y:?}");
                    }
                }
            }
        }
    }
    report.finish();
}

/// Past all keys, past what devices count by.
#[test]
fn far_offsets_see_all() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("far_offsets_see_all");
    let inputs = Inputs::random(&[3, 40], DType::F32, PLAIN, &mut random);
    let expected = inputs.run::<2>(&device);
    for offset in
        [40, u32::MAX as usize - 1, u32::MAX as usize, 1 << 32, usize::MAX - 1, usize::MAX]
    {
        let options = AttentionSoftmaxOptions { causal: Some(offset), ..PLAIN };
        let found = Inputs { options, ..inputs.clone() }.run::<2>(&device);
        for (name, found, expected) in [
            ("y", &found.y, &expected.y),
            ("dx", &found.dx.unwrap(), expected.dx.as_ref().unwrap()),
        ] {
            for (found, expected) in exact(found).iter().zip(exact(expected)) {
                assert!((found - expected).abs() <= 1e-6, "{name} with {offset}");
            }
        }
    }
}

/// NaN and +∞ where they are seen: their row is NaN and no other; −∞ is as left out.
#[test]
fn not_a_number_stays_in_its_row() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("not_a_number_stays_in_its_row");
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for columns in [64, 77] {
            let options = AttentionSoftmaxOptions { causal: Some(20), ..SCALED };
            let mut inputs = Inputs::random(&[5, columns], DType::F32, options, &mut random);
            inputs.x.data[2 * columns + 17] = bad;
            // Behind what the first row sees.
            inputs.x.data[30] = bad;
            let found = inputs.run::<2>(&device);
            let dx = found.dx.as_ref().unwrap();
            for (name, values) in [("y", exact(&found.y)), ("dx", exact(dx))] {
                for (row, values) in values.chunks_exact(columns).enumerate() {
                    let expected = row == 2 && bad != f64::NEG_INFINITY;
                    let found = values.iter().any(|v| v.is_nan());
                    assert_eq!(found, expected, "{name} {row} of {columns} with {bad}");
                }
            }
        }
    }
}

/// Central differences of the sum of `dy·y`.
#[test]
fn gradients_are_slopes() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("gradients_are_slopes");
    let in_double = dtypes::<Softmax>(&device).contains(&DType::F64);
    let (dtype, step, bound) =
        if in_double { (DType::F64, 1e-4, 1e-6) } else { (DType::F32, 1.0 / 64.0, 4e-3) };
    let options = AttentionSoftmaxOptions { scale: 0.5, causal: Some(3) };
    let inputs = Inputs::random(&[2, 2, 6], dtype, options, &mut random);
    let inputs = inputs.with_bias(&[1, 2, 6], dtype, &mut random);
    let value = |inputs: &Inputs| -> f64 {
        let bias = inputs.bias.as_ref().map(|bias| bias.tensor(&device));
        let y = attention_softmax(inputs.x.tensor::<3>(&device), None, bias, options);
        exact(&y.into_data()).iter().zip(&inputs.dy.data).map(|(y, dy)| y * dy).sum()
    };
    fn of_x(inputs: &mut Inputs) -> &mut Values {
        &mut inputs.x
    }
    fn of_bias(inputs: &mut Inputs) -> &mut Values {
        inputs.bias.as_mut().unwrap()
    }
    let found = inputs.run::<3>(&device);
    let places: [fn(&mut Inputs) -> &mut Values; 2] = [of_x, of_bias];
    for (place, found) in places.into_iter().zip([found.dx, found.dbias]) {
        let found = exact(&found.unwrap());
        let scale = magnitude(found.iter().copied()).max(1.0);
        for (i, found) in found.iter().enumerate() {
            let moved = |by: f64| {
                let mut inputs = inputs.clone();
                let to = &mut place(&mut inputs).data[i];
                *to = round(*to + by, dtype);
                let to = *to;
                (value(&inputs), to)
            };
            let ((ahead, to), (behind, from)) = (moved(step), moved(-step));
            let slope = (ahead - behind) / (to - from);
            assert!((slope - found).abs() <= bound * scale, "{i}: {slope} and {found}");
        }
    }
}

#[test]
fn any_input() {
    let Some(device) = device::open() else { return };
    let any_dtype = select(dtypes::<Softmax>(&device));
    let dtype = prop_oneof![3 => Just(DType::F32), 1 => any_dtype.clone()];
    let columns = prop_oneof![3 => 0..100usize, 1 => 100..3000usize];
    let strategy = (
        (0..4usize, 0..4usize, 0..9usize, columns),
        dtype,
        option::of(0..16usize),
        option::of((0..16usize, any_dtype)),
        (prop_oneof![Just(1.0), Just(0.125), -2.0..2.0f64], option::of(0..90usize)),
        any::<u64>(),
    );
    property::check(40, &strategy, |(shape, dtype, mask, bias, options, seed)| {
        let (mut report, mut random) = (Report::default(), Random::from_seed(seed));
        let options = AttentionSoftmaxOptions { scale: options.0, causal: options.1 };
        let shape = [shape.0, shape.1, shape.2, shape.3];
        let own = |pattern: usize| -> Vec<usize> {
            (0..4).map(|dim| if pattern >> dim & 1 == 1 { 1 } else { shape[dim] }).collect()
        };
        let mut inputs = Inputs::random(&shape, dtype, options, &mut random);
        if let Some(pattern) = mask {
            inputs = inputs.with_mask(&own(pattern), &mut random);
        }
        if let Some((pattern, dtype)) = bias {
            inputs = inputs.with_bias(&own(pattern), dtype, &mut random);
        }
        check::<4>(&inputs, &device, &mut report);
        report.into_result()
    });
}
