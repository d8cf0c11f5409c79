//! A row's own results depend on that row alone, to the bit: y and dx.

use crate::{
    compare::{Report, Verdict},
    device,
    op::{Data, Op, Outcome, dtypes},
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
                let part = &part[at * columns..][..columns];
                let whole = &whole[row * columns..][..columns];
                let bits = |v: &[f64]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                if bits(part) != bits(whole) {
                    return Err(format!(
                        "{name}: row {row} of {ROWS} differs as row {at} of {}",
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
    for dtype in dtypes::<O>(&device) {
        for columns in COLUMNS {
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
