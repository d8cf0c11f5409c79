//! Outputs are written whole, whatever their memory held before, and inputs not at all.

use crate::{
    compare::{Report, same_bits},
    deliver::deliver,
    device, memory,
    op::{Data, Op, differentiate, dtypes},
    random::Random,
};
use burn::tensor::{DType, Device, Tensor, TensorData};

/// Fills memory that the device will hand out again with NaN of every type.
fn poison(device: &Device, sizes: &[usize]) {
    let nan = f32::from_bits(u32::MAX);
    let powers = (8..22).map(|power| 1 << power);
    let buffers: Vec<_> = powers
        .chain(sizes.iter().copied())
        .flat_map(|bytes| [bytes.div_ceil(4).max(1); 4])
        .map(|len| {
            let data = TensorData::new(vec![nan; len], [len]);
            Tensor::<1>::from_data(data, (device, DType::F32))
        })
        .collect();
    device.sync().unwrap();
    drop(buffers);
}

pub fn outputs_are_written_whole<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("outputs_are_written_whole"), Report::default());
    for dtype in dtypes::<O>(&device) {
        for shape in [[1, 4], [3, 33], [67, 129], [1025, 64], [2049, 257], [5, 8193], [3, 40_001]] {
            let [rows, columns] = shape;
            let data = Data::random::<O>(&shape, 1, dtype, Some(dtype), &mut random);
            let (x, dy) = (data.x.tensor::<2>(&device), data.dy.tensor(&device));
            let parameters = data.parameters::<1>(&device);
            poison(&device, &[rows * columns * dtype.size(), rows * 4, columns * dtype.size()]);
            let outcome = differentiate(op, x, parameters, dy);
            data.check(op, &outcome, &mut report, "in used memory");
        }
    }
    report.finish();
}

/// Live buffers on both sides of memory that outputs may get: what is written past an output is seen there.
pub fn neighbours_are_left_alone<O: Op>(op: O) {
    const MARK: f32 = 1234.5;
    let Some(device) = device::open() else { return };
    let mut random = Random::of("neighbours_are_left_alone");
    for dtype in dtypes::<O>(&device) {
        for shape in [[3, 33], [67, 129], [1025, 64], [5, 4095], [3, 40_001]] {
            let [rows, columns] = shape;
            let data = Data::random::<O>(&shape, 1, dtype, Some(dtype), &mut random);
            let (x, dy) = (data.x.tensor::<2>(&device), data.dy.tensor(&device));
            let parameters = data.parameters::<1>(&device);
            let sizes = [rows * columns * dtype.size(), rows * 4, columns * dtype.size()];
            let guards: Vec<_> = sizes
                .into_iter()
                .flat_map(|bytes| [bytes.div_ceil(4); 16])
                .map(|len| Tensor::<1>::full([len], MARK, (&device, DType::F32)))
                .collect();
            device.sync().unwrap();
            // Every second one goes, and leaves a gap.
            let guards: Vec<_> = guards.into_iter().step_by(2).collect();
            differentiate(op, x, parameters, dy);
            for guard in guards {
                let found = guard.into_data();
                let intact = found.as_slice::<f32>().unwrap().iter().all(|value| *value == MARK);
                assert!(intact, "{} {data}: a neighbour was written to", O::NAME);
            }
        }
    }
}

/// Tracked or not: the same output, and what is kept stays as it was.
pub fn inputs_are_left_alone<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("inputs_are_left_alone"), Report::default());
    for dtype in dtypes::<O>(&device) {
        for shape in [[3, 64], [37, 257], [2, 8193], [2, 40_001]] {
            let data = Data::random::<O>(&shape, 1, dtype, Some(dtype), &mut random);
            let (x, dy) = (data.x.tensor::<2>(&device), data.dy.tensor::<2>(&device));
            let parameters = data.parameters::<1>(&device);
            let tracked = differentiate(op, x.clone(), parameters.clone(), dy.clone());
            data.check(op, &tracked, &mut report, "tracked");

            let kept = op.forward(x.clone(), parameters.clone()).into_data();
            let mut verdicts = vec![
                same_bits("y of a kept x", &tracked.y, &kept),
                same_bits("x", &data.x.tensor::<2>(&device).into_data(), &x.into_data()),
                same_bits("dy", &data.dy.tensor::<2>(&device).into_data(), &dy.into_data()),
            ];
            let before = data.parameters::<1>(&device).into_iter().flatten();
            for (before, after) in before.zip(parameters.into_iter().flatten()) {
                verdicts.push(same_bits("parameter", &before.into_data(), &after.into_data()));
            }
            report.add(&data, verdicts);
        }
    }
    report.finish();
}

/// Between the passes a norm keeps three numbers a row at most, beside its input and its output, and
/// softmax nothing else.
pub fn what_is_kept<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let Some(_) = memory::of_this_thread() else {
        return println!("skipped: {} does not tell what memory is in use", device::name());
    };
    let mut random = Random::of("what_is_kept");
    let shape = [1024, 1024];
    let data = Data::random::<O>(&shape, 1, DType::F32, Some(DType::F32), &mut random);
    let leaf = |p: Tensor<1>| p.autodiff().require_grad();
    let parameters: Vec<_> =
        data.parameters::<1>(&device).into_iter().map(|p| p.map(leaf)).collect();
    let x = data.x.tensor::<2>(&device).autodiff().require_grad();
    let settled = || {
        device.sync().unwrap();
        memory::of_this_thread().expect("it told before").in_use
    };
    // What a first call needs for good.
    drop(op.forward(x.clone(), parameters.clone()).into_data());
    let [rows, columns] = shape.map(|size| size as u64);
    let (output, statistics) = (4 * rows * columns, 4 * 3 * rows);
    let measure = || {
        let before = settled();
        let y = op.forward(x.clone(), parameters.clone());
        let kept = settled().saturating_sub(before);
        // The graph lets go of it once it was walked.
        drop(deliver(y, data.dy.tensor(&device)).backward());
        (kept, settled().saturating_sub(before))
    };
    // More than once, as now and then another test's thread has the same stream.
    let found = [(); 3].map(|()| measure());
    let fits = |(kept, stays): &(u64, u64)| {
        (output..=output + statistics + ROUNDING).contains(kept) && *stays <= ROUNDING
    };
    assert!(
        found.iter().any(fits),
        "{found:?} bytes between and after the passes, for an output of {output}"
    );
}

/// What sizes of buffers may be rounded up by, all together.
pub const ROUNDING: u64 = 1 << 16;
