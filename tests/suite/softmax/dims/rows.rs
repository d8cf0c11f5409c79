//! A row's results are its own.

use super::{Case, Form, both};
use crate::{compare::Report, device, op::Outcome, pairs, random::Random, softmax, values::Values};

both!(not_a_number_stays_in_its_row, alone_and_in_a_batch);

/// y and dx as lists of rows.
fn rows(case: &Case, outcome: &Outcome) -> [Vec<Vec<u64>>; 2] {
    let dx = outcome.dx.as_ref().expect("x is tracked");
    [&outcome.y, dx].map(|data| {
        let values = Values::returned(data).with_last(case.dim);
        let bits = |row: &[f64]| row.iter().map(|v| v.to_bits()).collect();
        values.data.chunks(case.x.shape[case.dim]).map(bits).collect()
    })
}

fn not_a_number_stays_in_its_row<F: Form>() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("not_a_number_stays_in_its_row");
    let mut report = Report::default();
    let (dtypes, shapes) = (softmax::dtypes(&device), [[3, 5, 7], [2, 65, 33], [5, 1025, 4]]);
    for [dtype, shape, dim] in pairs::combinations([dtypes.len(), shapes.len(), 3], &mut random) {
        let (dtype, shape) = (dtypes[dtype], shapes[shape]);
        let clean = Case::random(&shape, dim, dtype, &mut random);
        let expected = rows(&clean, &clean.run::<F>(false, &device));
        let at = random.below(clean.x.data.len());
        let inner: usize = shape[dim + 1..].iter().product();
        let row = at / (inner * shape[dim]) * inner + at % inner;
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for in_x in [true, false] {
                let mut case = clean.clone();
                let spoilt = if in_x { &mut case.x } else { &mut case.dy };
                spoilt.data[at] = bad;
                let outcome = case.run::<F>(false, &device);
                case.check::<F>(&outcome, &mut report, &format!("{bad}, in x: {in_x}"));
                let mut found = rows(&case, &outcome);
                for (found, expected) in found.iter_mut().zip(&expected) {
                    found[row].clone_from(&expected[row]);
                    assert!(found == expected, "{bad} left its row: {shape:?} along {dim}");
                }
            }
        }
    }
    report.finish();
}

/// Of each dimension that is not the rows', one index.
fn alone_and_in_a_batch<F: Form>() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("alone_and_in_a_batch");
    let (dtypes, shapes) = (softmax::dtypes(&device), [[5, 67, 9], [33, 4, 64], [3, 1025, 8]]);
    for [dtype, shape, dim] in pairs::combinations([dtypes.len(), shapes.len(), 3], &mut random) {
        let (dtype, shape) = (dtypes[dtype], shapes[shape]);
        let case = Case::random(&shape, dim, dtype, &mut random);
        let whole = rows(&case, &case.run::<F>(false, &device));
        for _ in 0..4 {
            let at = shape.map(|size| random.below(size));
            compare_part::<F>(&case, at, &whole);
        }
    }

    /// Keeps of some other dimensions, or of both, the index `at` alone, or
    /// it and a neighbour.
    fn compare_part<F: Form>(case: &Case, at: [usize; 3], whole: &[Vec<Vec<u64>>; 2]) {
        let Some(device) = device::open() else { return };
        let shape: [usize; 3] = case.x.shape.clone().try_into().expect("three dimensions");
        let others: Vec<usize> = (0..3).filter(|dim| *dim != case.dim).collect();
        for kept in [&others[..1], &others[1..], &others[..]] {
            let mut range = shape.map(|size| 0..size);
            // Two of the last dimension: with one, the elements of a row would be neighbours, and
            // those are added in another order.
            for &dim in kept {
                let count = if dim == 2 { 2 } else { 1 };
                let from = at[dim].min(shape[dim] - count);
                range[dim] = from..from + count;
            }
            let inside = |i: usize| {
                let index = [i / shape[1] / shape[2], i / shape[2] % shape[1], i % shape[2]];
                (0..3).all(|dim| range[dim].contains(&index[dim]))
            };
            let part = |from: &Values| {
                let data = (0..from.data.len()).filter(|i| inside(*i)).map(|i| from.data[i]);
                let shape = range.clone().map(|range| range.len());
                Values::new(&shape, from.dtype, data.collect())
            };
            let alone = Case { x: part(&case.x), dy: part(&case.dy), dim: case.dim };
            let found = rows(&alone, &alone.run::<F>(false, &device));
            let [outer, inner] = [others[0], others[1]].map(|dim| range[dim].clone());
            let numbers = outer.flat_map(|i| inner.clone().map(move |j| (i, j)));
            let numbers = numbers.map(|(i, j)| i * shape[others[1]] + j);
            for (found, whole) in found.iter().zip(whole) {
                let expected: Vec<_> = numbers.clone().map(|row| whole[row].clone()).collect();
                assert!(
                    *found == expected,
                    "rows along {} of {shape:?} {:?} differ from those of {:?}",
                    case.dim,
                    case.x.dtype,
                    alone.x.shape,
                );
            }
        }
    }
}
