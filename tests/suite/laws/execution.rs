//! What is said of a call's execution, and that it is so.

use crate::{
    compare::Report,
    device,
    errors::refuses,
    op::{Checked, Data, dtypes},
    random::Random,
};
use burn::tensor::{DType, Device, Tensor};
use burn_fused::{
    FusedError,
    ops::{Execution, Path, Reason},
};

fn execution<O: Checked>(op: O, data: &Data, device: &Device) -> Execution {
    op.execution(&data.x.tensor::<2>(device), &data.parameters::<1>(device)).unwrap()
}

/// Fused wherever a CubeCL runtime computes in the types; composed on Flex, and it says why.
pub fn path_and_accumulator<O: Checked>(op: O) {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("path_and_accumulator");
    let dtypes = dtypes::<O>(&device);
    for &dtype in &dtypes {
        for parameters in [None, Some(dtype), Some(DType::F32)] {
            let data = Data::random::<O>(&[3, 40], 1, dtype, parameters, &mut random);
            for device in [device.clone(), device.clone().autodiff()] {
                let execution = execution(op, &data, &device);
                assert_eq!(execution.accumulator, data.accumulator());
                assert_eq!(execution.deterministic, execution.path == Path::Fused);
                match execution.path {
                    Path::Fused => assert_ne!(device::name(), "flex"),
                    Path::Composed(Reason::NoKernel { .. }) => assert_eq!(device::name(), "flex"),
                    path => panic!("the path of {dtype:?} is {path}"),
                }
            }
        }
    }
    let x = Tensor::<2>::ones([3, 40], &device);
    let none: Vec<Option<Tensor<1>>> = O::PARAMETERS.iter().map(|_| None).collect();
    let expected = if device::name() == "flex" {
        "composed: there are no kernels for Flex(Cpu)"
    } else {
        "fused"
    };
    assert_eq!(op.execution(&x, &none).unwrap().path.to_string(), expected);
}

/// In every type either a call runs, also where Burn's own ops don't compute in it, or it is refused.
pub fn every_type_runs_or_is_refused<O: Checked>(op: O) {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("every_type_runs_or_is_refused");
    let (mut report, supported) = (Report::default(), dtypes::<O>(&device));
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        let data = Data::random::<O>(&[3, 40], 1, dtype, Some(dtype), &mut random);
        let (x, parameters) = (data.x.tensor::<2>(&device), data.parameters::<1>(&device));
        match op.execution(&x, &parameters) {
            Ok(execution) => {
                let outcome = data.run(op, &device);
                data.check(op, &outcome, &mut report, &execution.path.to_string());
            }
            Err(error) => {
                assert!(!supported.contains(&dtype), "{error}");
                let name = format!("{:?}", x.device());
                let expected = FusedError::Unsupported {
                    op: O::NAME,
                    argument: "x",
                    device: name.clone(),
                    found: dtype,
                };
                let message = format!(
                    "`x` is {dtype:?}, in which {name} does not compute this; cast it to a type that it has, \
                     as f32 or i32"
                );
                refuses(op, x, parameters, expected, &message);
            }
        }
    }
    report.finish();
}
