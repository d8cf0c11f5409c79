//! Tensors that move to another device.

use crate::{
    compare::Report,
    device,
    op::{Data, Op, differentiate},
    random::Random,
};
use burn::tensor::DType;

/// What was made on one device and moved to another gives there what it must, and the same bits where both
/// are of one kind.
pub fn moved_to_another<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let Some(other) = device::another() else { return };
    let (mut random, mut report) = (Random::of("moved_to_another"), Report::default());
    for shape in [[67, 257], [1025, 64], [3, 40_001]] {
        let data = Data::random::<O>(&shape, 1, DType::F32, Some(DType::F32), &mut random);
        let first = data.run(op, &device);
        data.check(op, &first, &mut report, "on the first device");
        let [x, dy] = [&data.x, &data.dy].map(|v| v.tensor::<2>(&device).to_device(&other.device));
        let parameters = data.parameters::<1>(&device).into_iter();
        let parameters = parameters.map(|p| p.map(|p| p.to_device(&other.device))).collect();
        let second = differentiate(op, x, parameters, dy);
        data.check(op, &second, &mut report, "on the second device");
        if other.alike {
            report.add(&data, second.same_bits::<O>(&first));
        }
    }
    report.finish();
}
