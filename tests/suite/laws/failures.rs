//! What a device cannot do fails with a reason, and leaves it usable.

use crate::{
    compare::Report,
    device,
    op::{Data, Op},
    panics,
    random::Random,
};
use burn::tensor::{DType, Tensor};

/// An output larger than the device's memory, of an input that is a view of one row.
pub fn more_than_the_device_has<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    if device::name() == "flex" {
        return println!("skipped: what flex cannot allocate ends the process");
    }
    let (mut random, mut report) = (Random::of("more_than_the_device_has"), Report::default());
    // 16 TiB; through WGSL, whose indices have 32 bits, 8 GiB, which exceed what it binds.
    let blocks = if device::name() == "vulkan" { 1 << 9 } else { 1 << 20 };
    let shape = [blocks, 1 << 10, 1 << 12];
    let bytes = shape.iter().product::<usize>() * DType::F32.size();
    let x = Tensor::<3>::ones([1, 1, shape[2]], &device).expand(shape);
    let attempt = || {
        let none = O::PARAMETERS.iter().map(|_| None::<Tensor<1>>).collect();
        let y = op.forward(x, none).narrow(0, 0, 1).narrow(1, 0, 1);
        y.try_into_data().map_err(|error| error.to_string())
    };
    let mut failed = None;
    let panicked = panics::message(|| failed = attempt().err());
    let message = failed.or(panicked).expect("no device has that much");
    assert!(message.contains(&bytes.to_string()), "no word of {bytes} bytes in: {message}");
    let data = Data::random::<O>(&[67, 257], 1, DType::F32, Some(DType::F32), &mut random);
    data.check(op, &data.run(op, &device), &mut report, "after an allocation failed");
    report.finish();
}
