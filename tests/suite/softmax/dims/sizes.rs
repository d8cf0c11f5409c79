//! Sizes and types, against the oracle.

use super::{Case, Form, both};
use crate::{compare::Report, device, random::Random, softmax};
use burn::tensor::DType;

both!(every_dim, empty, long_rows);

/// Ranks 1 to 4. Counted from the start or from the end, a dimension gives the same bits.
fn every_dim<F: Form>() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("every_dim"), Report::default());
    let shapes: [&[usize]; 17] = [
        &[1],
        &[100],
        &[4, 6],
        &[65, 33],
        &[1, 257],
        &[3, 5, 7],
        &[2, 64, 33],
        &[64, 3, 1],
        &[5, 1, 9],
        &[1, 1, 1],
        &[3, 513, 8],
        &[1, 4097, 5],
        &[2, 3, 4, 64],
        &[3, 5, 7, 2],
        &[2, 31, 3, 33],
        &[1, 2, 1, 4],
        &[2, 1025, 1, 16],
    ];
    for dtype in softmax::dtypes(&device) {
        for shape in shapes {
            for dim in 0..shape.len() {
                let case = Case::random(shape, dim, dtype, &mut random);
                let outcome = case.run::<F>(false, &device);
                case.check::<F>(&outcome, &mut report, "");
                let from_the_end = case.run::<F>(true, &device);
                report.add(format!("{dim} of {shape:?}"), outcome.same_bits::<F>(&from_the_end));
            }
        }
    }
    report.finish();
}

fn empty<F: Form>() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("empty"), Report::default());
    for dtype in softmax::dtypes(&device) {
        let shapes: [&[usize]; 5] = [&[0], &[3, 0, 4], &[0, 2], &[2, 3, 0], &[0, 0, 1, 5]];
        for shape in shapes {
            for dim in 0..shape.len() {
                let case = Case::random(shape, dim, dtype, &mut random);
                let outcome = case.run::<F>(false, &device);
                assert_eq!(outcome.y.shape().to_vec(), shape, "along {dim}");
                case.check::<F>(&outcome, &mut report, "");
            }
        }
    }
    report.finish();
}

/// More rows, and longer ones, than a kernel takes at once.
fn long_rows<F: Form>() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("long_rows"), Report::default());
    let dtypes = softmax::dtypes(&device);
    for dtype in dtypes.into_iter().filter(|dtype| *dtype != DType::F64) {
        let cases: [(&[usize], usize); 6] = [
            (&[4, 70_000], 0),
            (&[70_000, 4], 0),
            (&[7, 1000, 64], 1),
            (&[2, 40_001, 3], 1),
            (&[40_001, 5], 0),
            (&[2, 16_384, 2], 1),
        ];
        for (shape, dim) in cases {
            let case = Case::random(shape, dim, dtype, &mut random);
            case.check::<F>(&case.run::<F>(false, &device), &mut report, "");
        }
    }
    report.finish();
}
