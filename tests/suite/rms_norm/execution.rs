//! What `rms_norm_execution` says, and that it is so.

use super::RmsNorm;
use crate::{compare::Report, device, op::Data, random::Random};
use burn::tensor::{DType, Tensor};
use burn_fused::{
    ops::{Execution, Path, Reason},
    rms_norm_execution,
};

fn execution(data: &Data, device: &burn::tensor::Device) -> Execution {
    let x = data.x.tensor::<2>(device);
    let gamma = data.parameters[0].as_ref().map(|gamma| gamma.tensor::<1>(device));
    rms_norm_execution(&x, gamma.as_ref()).unwrap()
}

/// Fused wherever a CubeCL runtime computes in the types; composed on Flex, and it says why.
#[test]
fn path_and_accumulator() {
    let Some(device) = device::open() else { return };
    let mut random = Random::of("path_and_accumulator");
    let dtypes = device::dtypes(&device);
    for &dtype in &dtypes {
        for parameters in [None, Some(dtype), Some(DType::F32)] {
            let data = Data::random::<RmsNorm>(&[3, 40], 1, dtype, parameters, &mut random);
            for device in [device.clone(), device.clone().autodiff()] {
                let execution = execution(&data, &device);
                let accumulator = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
                assert_eq!(execution.accumulator, accumulator);
                assert_eq!(execution.deterministic, execution.path == Path::Fused);
                match execution.path {
                    Path::Fused => assert_ne!(device::name(), "flex"),
                    Path::Composed(Reason::NoKernel { .. }) => assert_eq!(device::name(), "flex"),
                    path => panic!("{dtype:?} is supported, but the path is {path}"),
                }
            }
        }
    }
    let x = Tensor::<2>::ones([3, 40], &device);
    let path = rms_norm_execution(&x, None::<&Tensor<1>>).unwrap().path;
    let expected = if device::name() == "flex" {
        "composed: there are no kernels for Flex(Cpu)"
    } else {
        "fused"
    };
    assert_eq!(path.to_string(), expected);
}

/// What is said to be fused runs, also in types that Burn's own ops don't compute in there.
#[test]
fn fused_types_run() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("fused_types_run"), Report::default());
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        let data = Data::random::<RmsNorm>(&[3, 40], 1, dtype, Some(dtype), &mut random);
        let execution = execution(&data, &device);
        if execution.path == Path::Fused || device.supports_dtype(dtype) {
            let outcome = data.run(RmsNorm::default(), &device);
            data.check(RmsNorm::default(), &outcome, &mut report, &execution.path.to_string());
        } else {
            println!("skipped: {dtype:?} is {} and unsupported", execution.path);
        }
    }
    report.finish();
}
