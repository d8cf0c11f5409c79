//! The same inputs give the same bits: y, dx and the parameters' gradients.

use crate::{
    compare::Report,
    device,
    op::{Data, Op, Outcome, differentiate, dtypes},
    random::Random,
    values::Values,
};
use burn::tensor::{DType, Device, Tensor};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// Shapes, and how often each is run. On a fast device small ones of all ways to sum over rows, as all results
/// are read back: teams that share a cube, rows held, rows in tiles; and a large one a few times.
fn shapes() -> &'static [([usize; 2], usize)] {
    if device::is_fast() {
        &[
            ([1024, 256], 1000),
            ([64, 4096], 1000),
            ([16, 16_384], 1000),
            ([4, 65_536], 1000),
            ([8192, 4096], 20),
        ]
    } else {
        &[([512, 1024], 100)]
    }
}

/// Runs the same inputs many times, in f32 and in a narrow type.
fn repeat<O: Op>(op: O, test: &str, in_other_memory: bool) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of(test), Report::default());
    let dtypes = dtypes::<O>(&device);
    let narrow = dtypes.iter().rev().find(|dtype| dtype.size() == 2);
    for dtype in [Some(&DType::F32), narrow].into_iter().flatten().copied() {
        for (shape, times) in shapes() {
            let data = Data::random::<O>(shape, 1, dtype, Some(DType::F32), &mut random);
            let inputs = Inputs::new(&data, &device);
            let first = inputs.run(op);
            data.check(op, &first, &mut report, "the first time");
            for i in 1..*times {
                let outcome = if in_other_memory {
                    let _junk = junk(&device, &mut random);
                    inputs.copy().run(op)
                } else {
                    inputs.run(op)
                };
                report.add(format!("{data}, run {i}"), outcome.same_bits::<O>(&first));
            }
        }
    }
    report.finish();
}

struct Inputs {
    x: Tensor<2>,
    parameters: Vec<Option<Tensor<1>>>,
    dy: Tensor<2>,
}

impl Inputs {
    fn new(data: &Data, device: &Device) -> Self {
        Self {
            x: data.x.tensor(device),
            parameters: data.parameters(device),
            dy: data.dy.tensor(device),
        }
    }

    fn copy(&self) -> Self {
        // Times one is every float itself.
        let parameters = self.parameters.iter();
        Self {
            x: self.x.clone() * 1.0,
            parameters: parameters.map(|p| p.as_ref().map(|p| p.clone() * 1.0)).collect(),
            dy: self.dy.clone() * 1.0,
        }
    }

    fn run<O: Op>(&self, op: O) -> Outcome {
        differentiate(op, self.x.clone(), self.parameters.clone(), self.dy.clone())
    }
}

pub fn alone<O: Op>(op: O) {
    repeat(op, "alone", false);
}

/// Memory that is taken before the inputs moves them, and at odd sizes their alignment.
pub fn in_other_memory<O: Op>(op: O) {
    repeat(op, "in_other_memory", true);
}

fn junk(device: &Device, random: &mut Random) -> Vec<Tensor<1>> {
    let mut len = || 1 + random.below(1 << 16);
    (0..3).map(|_| Values::of(&[len()], DType::F32, |_| f64::NAN).tensor(device)).collect()
}

/// Another thread keeps the device busy.
pub fn on_a_busy_device<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                work(&device);
            }
        });
        // Set also where the test fails, so that the other thread ends.
        let _end = OnDrop(|| done.store(true, Ordering::Relaxed));
        repeat(op, "on_a_busy_device", false);
    });
}

/// Products where the device is fast. Elsewhere Burn would time candidates for them, for minutes.
fn work(device: &Device) {
    let size = if device::is_fast() { 2048 } else { 256 };
    let a = Values::of(&[size, size], DType::F32, |i| (i % 7) as f64).tensor::<2>(device);
    let result = if device::is_fast() { a.clone().matmul(a) } else { (a.clone() + 1.0).log() * a };
    assert_eq!(result.into_data().num_elements(), size * size);
}

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
