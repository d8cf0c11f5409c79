//! A row's own results depend on that row alone, to the bit: y and dx.

use crate::{
    compare::{Report, Verdict, same_bits},
    device,
    op::{Data, Op, Outcome, dtypes},
    pairs,
    random::Random,
    values::exact,
};
use burn::tensor::{DType, Device, TensorData};

const ROWS: usize = 67;
const COLUMNS: [usize; 7] = [1, 5, 33, 256, 1025, 4096, 8193];

/// Runs chosen rows of a batch by themselves and compares them with the batch's.
struct Batch<'a, O> {
    op: O,
    device: &'a Device,
    data: Data,
    whole: Outcome,
}

impl<O: Op> Batch<'_, O> {
    fn compare(&self, order: &[usize]) -> Vec<Verdict> {
        let outcome = self.data.rows(order).run(self.op, self.device);
        let columns = self.data.columns();
        let same = |name: &str, part: &TensorData, whole: &TensorData| {
            let (part, whole) = (exact(part), exact(whole));
            for (at, row) in order.iter().enumerate() {
                let bits = |v: &[f64], row: usize| {
                    v[row * columns..][..columns].iter().map(|v| v.to_bits()).collect::<Vec<_>>()
                };
                if bits(&part, at) != bits(&whole, *row) {
                    return Err(format!(
                        "{name}: row {row} of {} differs as row {at} of {}",
                        whole.len() / columns,
                        order.len()
                    ));
                }
            }
            Ok(0.0)
        };
        let dx = |outcome: &Outcome| outcome.dx.clone().expect("x is tracked");
        vec![same("y", &outcome.y, &self.whole.y), same("dx", &dx(&outcome), &dx(&self.whole))]
    }
}

fn in_orders<O: Op>(op: O, test: &str, orders: impl Fn(&mut Random) -> Vec<Vec<usize>>) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of(test), Report::default());
    let dtypes = dtypes::<O>(&device);
    for columns in COLUMNS {
        // Where they are slow one of the types a length.
        let one = random.below(dtypes.len());
        let chosen = if pairs::all() { &dtypes[..] } else { &dtypes[one..=one] };
        for &dtype in chosen {
            let types = (dtype, Some(if columns % 2 == 0 { dtype } else { DType::F32 }));
            let data = Data::random::<O>(&[ROWS, columns], 1, types.0, types.1, &mut random);
            let whole = data.run(op, &device);
            let batch = Batch { op, device: &device, data, whole };
            for order in orders(&mut random) {
                report.add(format!("{} {}", O::NAME, batch.data), batch.compare(&order));
            }
        }
    }
    report.finish();
}

pub fn alone_and_in_a_batch<O: Op>(op: O) {
    in_orders(op, "alone_and_in_a_batch", |random| {
        (0..6).map(|_| vec![random.below(ROWS)]).chain([vec![0], vec![ROWS - 1]]).collect()
    });
}

pub fn in_another_order<O: Op>(op: O) {
    in_orders(op, "in_another_order", |random| vec![random.permutation(ROWS)]);
}

pub fn in_chunks<O: Op>(op: O) {
    in_orders(op, "in_chunks", |random| {
        let cut = 1 + random.below(ROWS - 1);
        vec![(0..cut).collect(), (cut..ROWS).collect()]
    });
}

/// Where a team takes row after row, as it does of more rows than a GPU has room for at once, the later
/// ones are not worked on as the first one is; nor where the output takes the input's place.
pub fn after_others<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("after_others"), Report::default());
    let shapes = if device::is_fast() {
        [[9000, 256], [300, 16_384], [300, 65_536], [300, 65_537]]
    } else {
        [[300, 256], [5, 16_384], [3, 65_536], [3, 65_537]]
    };
    let dtypes = dtypes::<O>(&device);
    let narrow = dtypes.iter().rev().find(|dtype| dtype.size() == 2);
    for dtype in [Some(&DType::F32), narrow].into_iter().flatten().copied() {
        for shape in shapes {
            let data = Data::random::<O>(&shape, 1, dtype, Some(dtype), &mut random);
            let whole = data.run(op, &device);
            let rows: Vec<_> = (0..12).map(|_| random.below(shape[0])).collect();
            let untracked = op.forward(data.x.tensor::<2>(&device), data.parameters::<1>(&device));
            let in_place = same_bits("y in place", &whole.y, &untracked.into_data());
            let batch = Batch { op, device: &device, data, whole };
            let mut verdicts = batch.compare(&rows);
            verdicts.push(in_place);
            report.add(format!("{} {}", O::NAME, batch.data), verdicts);
        }
    }
    report.finish();
}
