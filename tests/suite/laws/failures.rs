//! What a device cannot do fails as Burn's own ops do there, and leaves it usable.

use crate::{
    compare::Report,
    device,
    op::{Data, Op},
    panics,
    random::Random,
};
use burn::tensor::{DType, Tensor};

/// An output of 16 TiB, of an input that is a view of one row.
pub fn more_than_the_device_has<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    if device::name() == "flex" {
        return println!("skipped: what flex cannot allocate ends the process");
    }
    let mut random = Random::of("more_than_the_device_has");
    let mut report = Report::default();
    let shape = [1 << 20, 1 << 10, 1 << 12];
    let x = Tensor::<3>::ones([1, 1, shape[2]], &device).expand(shape);
    let attempt = || {
        let none = O::PARAMETERS.iter().map(|_| None::<Tensor<1>>).collect();
        let y = op.forward(x, none).narrow(0, 0, 1).narrow(1, 0, 1);
        y.try_into_data().map_err(|error| error.to_string())
    };
    let mut failed = None;
    let panicked = panics::message(|| failed = attempt().err());
    let message = failed.or(panicked).expect("no device has 16 TiB");
    println!("{message}");
    let data = Data::random::<O>(&[67, 257], 1, DType::F32, Some(DType::F32), &mut random);
    data.check(op, &data.run(op, &device), &mut report, "after an allocation failed");
    report.finish();
}
