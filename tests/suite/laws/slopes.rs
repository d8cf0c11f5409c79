//! Gradients against finite differences of the op itself, so of no one's formula.
//!
//! A central difference with step h is off by h²/6 of the third derivative, here of size 10, and by
//! the rounding of the loss over h. In f64 with h = 1e-4: 2e-8 and 1e-12, the bound is 2e-7. In f32
//! with h = 1/64: 4e-4 and 3e-5, the bound is 4e-3.

use crate::{
    compare::{Report, Verdict},
    device,
    op::{Data, Op, dtypes},
    random::Random,
    values::{Values, exact, round},
};
use burn::tensor::{DType, Device, TensorData};

const COLUMNS: usize = 12;

fn setting<O: Op>(device: &Device) -> (DType, f64, f64) {
    if dtypes::<O>(device).contains(&DType::F64) {
        (DType::F64, 1e-4, 2e-7)
    } else {
        println!("f32 in place of f64");
        (DType::F32, 1.0 / 64.0, 4e-3)
    }
}

fn inputs<O: Op>(rows: usize, dtype: DType, random: &mut Random) -> Data {
    let mut data = Data::random::<O>(&[rows, COLUMNS], 1, dtype, Some(dtype), random);
    data.x = Values::normal(&[rows, COLUMNS], dtype, random);
    data
}

fn losses<O: Op>(op: O, data: &Data, device: &Device) -> Vec<f64> {
    let y = op.forward(data.x.tensor::<2>(device), data.parameters::<1>(device));
    let products = exact(&y.into_data()).into_iter().zip(&data.dy.data).map(|(y, dy)| y * dy);
    let products: Vec<_> = products.collect();
    products.chunks(COLUMNS).map(|row| row.iter().sum()).collect()
}

fn close(name: &str, slopes: &[f64], found: Option<&TensorData>, bound: f64) -> Verdict {
    let Some(found) = found else { return Err(format!("{name} is missing")) };
    let found = exact(found);
    let scale = slopes.iter().fold(1.0, |scale: f64, slope| scale.max(slope.abs()));
    for (i, (slope, found)) in slopes.iter().zip(&found).enumerate() {
        let error = (slope - found).abs();
        if error > bound * scale || error.is_nan() {
            return Err(format!("{name}[{i}] is {found:e}, the slope {slope:e}"));
        }
    }
    if slopes.len() == found.len() { Ok(0.0) } else { Err(format!("{name} has another length")) }
}

/// One row; each of its elements is moved in a row of its own, both ways.
pub fn of_the_input<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("of_the_input"), Report::default());
    let (dtype, step, bound) = setting::<O>(&device);
    let data = inputs::<O>(1, dtype, &mut random);
    let mut moved = data.rows(&[0; 2 * COLUMNS]);
    let mut distances = Vec::new();
    for i in 0..COLUMNS {
        let ahead = round(data.x.data[i] + step, dtype);
        let behind = round(data.x.data[i] - step, dtype);
        moved.x.data[2 * i * COLUMNS + i] = ahead;
        moved.x.data[(2 * i + 1) * COLUMNS + i] = behind;
        distances.push(ahead - behind);
    }
    let losses = losses(op, &moved, &device);
    let slopes: Vec<_> = losses
        .chunks(2)
        .zip(distances)
        .map(|(pair, distance)| (pair[0] - pair[1]) / distance)
        .collect();
    let outcome = data.run(op, &device);
    report.add(O::NAME, [close("dx", &slopes, outcome.dx.as_ref(), bound)]);
    report.finish();
}

/// Five rows; each element of each parameter is moved in a call of its own, both ways.
pub fn of_the_parameters<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    if O::PARAMETERS.is_empty() {
        return println!("skipped: {} has no parameters", O::NAME);
    }
    let (mut random, mut report) = (Random::of("of_the_parameters"), Report::default());
    let (dtype, step, bound) = setting::<O>(&device);
    let data = inputs::<O>(5, dtype, &mut random);
    let outcome = data.run(op, &device);
    for (p, name) in O::PARAMETERS.iter().enumerate() {
        let slopes: Vec<f64> = (0..COLUMNS)
            .map(|i| {
                let moved = |by: f64| {
                    let mut moved = data.clone();
                    let value = &mut moved.parameters[p].as_mut().expect("it is given").data[i];
                    *value = round(*value + by, dtype);
                    let value = *value;
                    (losses(op, &moved, &device).iter().sum::<f64>(), value)
                };
                let ((ahead, to), (behind, from)) = (moved(step), moved(-step));
                (ahead - behind) / (to - from)
            })
            .collect();
        let found = outcome.parameters[p].as_ref();
        report.add(O::NAME, [close(name, &slopes, found, bound)]);
    }
    report.finish();
}
