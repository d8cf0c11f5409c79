//! Inputs as they lie, and outputs where inputs lay.

use super::{AddNorm, Found, Sums, Used, both};
use crate::{
    buffer::{Note, noted},
    compare::{Report, same_bits},
    deliver::deliver,
    device,
    laws::memory::ROUNDING,
    layout::{LAYOUTS, Laid},
    memory,
    random::Random,
    values::Values,
};
use burn::tensor::{DType, Tensor};

both!(every_layout buffers_are_reused clones_are_left_alone what_is_kept);

/// The residual and the sum's gradient in each layout; x's and dy's are `laws`.
fn every_layout<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("every_layout"), Report::default());
    for shape in [[4, 3, 64], [3, 5, 33], [2, 2, 3584]] {
        for layout in LAYOUTS {
            let dtype = DType::F32;
            let rows = [shape[0] * shape[1], shape[2]];
            let mut sums = Sums::random::<O>(&rows, 1, dtype, Some(dtype), &mut random);
            let laid =
                [(); 2].map(|()| Laid::random(layout, shape, dtype, Random::normal, &mut random));
            let [residual, dsum] = laid.each_ref().map(|laid| laid.tensors(&device));
            [sums.residual, sums.dsum] = laid.map(|laid| laid.values.reshaped(&rows));
            let on =
                |values: &Values| values.clone().reshaped(&shape).tensor::<3>(&device).autodiff();
            let (x, dy) = (on(&sums.data.x).require_grad(), on(&sums.data.dy));
            let parameters = sums.data.parameters::<1>(&device).into_iter();
            let parameters: Vec<_> =
                parameters.map(|p| p.map(|p| p.autodiff().require_grad())).collect();
            let added = residual.1.autodiff().require_grad();
            let outputs = op.add(x.clone(), added.clone(), parameters.clone());
            let given = [dy, dsum.1];
            let found = Found::new(outputs, Used::Both, given, [x, added], parameters);
            let case = format!("{} {shape:?}, residual and dsum {layout:?}", O::ADD);
            report.add(&case, sums.check(op, Used::Both, usize::MAX, &found));
        }
    }
    report.finish();
}

/// y lies where x did and the sum where the residual did, if nothing is tracked; dx where the gradient of
/// the norm did, or else that of the sum.
fn buffers_are_reused<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    if device::name() == "flex" {
        return println!("skipped: there are no kernels for flex");
    }
    let mut random = Random::of("buffers_are_reused");
    for shape in [[3, 64], [37, 257], [2, 8193], [2, 40_001]] {
        let sums = Sums::random::<O>(&shape, 1, DType::F32, Some(DType::F32), &mut random);
        let place = |note: Note| note.lock().unwrap().expect("a buffer was seen");
        let (x, x_note) = noted(sums.data.x.tensor::<2>(&device));
        let (residual, residual_note) = noted(sums.residual.tensor::<2>(&device));
        // Until they have arrived the uploads hold the buffers as well.
        device.sync().unwrap();
        let (y, sum) = op.add(x, residual, sums.data.parameters::<1>(&device));
        let ((y, y_note), (sum, sum_note)) = (noted(y), noted(sum));
        y.into_data();
        sum.into_data();
        assert_eq!(place(x_note), place(y_note), "y and x of {} {shape:?}", O::ADD);
        assert_eq!(place(residual_note), place(sum_note), "the sum of {} {shape:?}", O::ADD);

        for over in ["dy", "dsum"] {
            let (dy, dy_note) = noted(sums.data.dy.tensor::<2>(&device));
            let (dsum, dsum_note) = noted(sums.dsum.tensor::<2>(&device));
            let other = (over == "dsum").then(|| dy.clone());
            device.sync().unwrap();
            let x = sums.data.x.tensor::<2>(&device).autodiff().require_grad();
            let residual = sums.residual.tensor::<2>(&device).autodiff();
            let (y, sum) = op.add(x.clone(), residual, sums.data.parameters::<1>(&device));
            let gradients = (deliver(y, dy) + deliver(sum, dsum)).backward();
            let (dx, after) = noted(x.grad(&gradients).expect("x is tracked"));
            dx.into_data();
            let before = if over == "dy" { dy_note } else { dsum_note };
            assert_eq!(place(before), place(after), "dx over {over} of {} {shape:?}", O::ADD);
            drop(other);
        }
    }
}

/// What a clone holds is as it was.
fn clones_are_left_alone<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("clones_are_left_alone"), Report::default());
    for shape in [[3, 64], [37, 257], [2, 40_001]] {
        let sums = Sums::random::<O>(&shape, 1, DType::F32, Some(DType::F32), &mut random);
        let kept = sums.run(op, Used::Both, usize::MAX, &device);
        for held in 0..4 {
            let [x, residual] =
                [&sums.data.x, &sums.residual].map(|values| values.tensor::<2>(&device));
            let clones = [
                (held & 1 != 0).then(|| (x.clone(), &sums.data.x)),
                (held & 2 != 0).then(|| (residual.clone(), &sums.residual)),
            ];
            let (y, sum) = op.add(x, residual, sums.data.parameters::<1>(&device));
            let case = format!("{} {}, held {held:b}", O::ADD, sums.data);
            let [y, sum] = [y, sum].map(Tensor::into_data);
            report.add(&case, [same_bits("y", &kept.y, &y), same_bits("sum", &kept.sum, &sum)]);
            for (clone, values) in clones.into_iter().flatten() {
                report.add(&case, [same_bits("a clone", &values.data(), &clone.into_data())]);
            }
        }
    }
    report.finish();
}

/// Of x and the residual, which the graph alone would hold, nothing; of outputs that are not used any more, the
/// sum.
fn what_is_kept<O: AddNorm>(op: O) {
    let Some(device) = device::open() else { return };
    let Some(_) = memory::of_this_thread() else {
        return println!("skipped: {} does not tell what memory is in use", device::name());
    };
    let mut random = Random::of("what_is_kept");
    let [rows, columns] = [1024, 1024];
    let sums = Sums::random::<O>(&[rows, columns], 1, DType::F32, Some(DType::F32), &mut random);
    let parameters = sums.data.parameters::<1>(&device).into_iter();
    let parameters: Vec<_> = parameters.map(|p| p.map(|p| p.autodiff().require_grad())).collect();
    let settled = || {
        device.sync().unwrap();
        memory::of_this_thread().expect("it told before").in_use
    };
    let call = || {
        let leaf = |values: &Values| values.tensor::<2>(&device).autodiff().require_grad();
        let (x, residual) = (leaf(&sums.data.x), leaf(&sums.residual));
        // Not leaves, which would be held for their gradients.
        op.add(x * 2.0, residual * 2.0, parameters.clone())
    };
    drop(call().0.into_data());
    let measure = || {
        let before = settled();
        let (y, sum) = call();
        drop(y);
        let kept = settled().saturating_sub(before);
        drop(deliver(sum, sums.dsum.tensor(&device)).backward());
        (kept, settled().saturating_sub(before))
    };
    // More than once, as now and then another test's thread has the same stream.
    let found = [(); 3].map(|()| measure());
    let (sum, statistics) = (4 * (rows * columns) as u64, 4 * 3 * rows as u64);
    let fits = |(kept, stays): &(u64, u64)| {
        (sum..=sum + statistics + ROUNDING).contains(kept) && *stays <= ROUNDING
    };
    assert!(found.iter().any(fits), "{found:?} bytes between and after, for a sum of {sum}");
}
