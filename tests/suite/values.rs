//! Values on the host, in f64 but already rounded to the type that the device gets them in.

use crate::random::Random;
use burn::tensor::{DType, Device, Tensor, TensorData};
use half::{bf16, f16};

#[derive(Debug, Clone)]
pub struct Values {
    pub shape: Vec<usize>,
    pub dtype: DType,
    pub data: Vec<f64>,
}

impl Values {
    /// `data` rounded to `dtype`.
    pub fn new(shape: &[usize], dtype: DType, mut data: Vec<f64>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), data.len());
        for value in &mut data {
            *value = round(*value, dtype);
        }
        Self { shape: shape.to_vec(), dtype, data }
    }

    pub fn of(shape: &[usize], dtype: DType, value: impl FnMut(usize) -> f64) -> Self {
        let len = shape.iter().product();
        Self::new(shape, dtype, (0..len).map(value).collect())
    }

    pub fn normal(shape: &[usize], dtype: DType, random: &mut Random) -> Self {
        Self::of(shape, dtype, |_| random.normal())
    }

    pub fn reshaped(mut self, shape: &[usize]) -> Self {
        self.shape = shape.to_vec();
        self
    }

    /// What a device returned.
    pub fn returned(data: &TensorData) -> Self {
        Self { shape: data.shape().to_vec(), dtype: data.dtype(), data: exact(data) }
    }

    /// The dimension `dim` moved to the end.
    pub fn with_last(&self, dim: usize) -> Self {
        let (outer, rest) = self.shape.split_at(dim);
        let (size, inner) = (rest[0], rest[1..].iter().product::<usize>());
        let mut data = Vec::with_capacity(self.data.len());
        for block in self.data.chunks_exact((size * inner).max(1)) {
            for i in 0..inner {
                data.extend(block[i..].iter().step_by(inner));
            }
        }
        let shape = [outer, &rest[1..], &rest[..1]].concat();
        Self { shape, dtype: self.dtype, data }
    }

    pub fn tensor<const D: usize>(&self, device: &Device) -> Tensor<D> {
        Tensor::from_data(self.data(), (device, self.dtype))
    }

    pub fn data(&self) -> TensorData {
        let (shape, data) = (self.shape.clone(), self.data.iter());
        match self.dtype {
            DType::F64 => TensorData::new(self.data.clone(), shape),
            DType::F32 => TensorData::new(data.map(|v| *v as f32).collect(), shape),
            DType::F16 => TensorData::new(data.map(|v| f16::from_f64(*v)).collect(), shape),
            DType::BF16 => TensorData::new(data.map(|v| bf16::from_f64(*v)).collect(), shape),
            dtype => panic!("no host type for {dtype:?}"),
        }
    }
}

/// The nearest value that `dtype` holds, ties to even.
pub fn round(value: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F64 => value,
        DType::F32 => f64::from(value as f32),
        DType::F16 => f16::from_f64(value).to_f64(),
        DType::BF16 => bf16::from_f64(value).to_f64(),
        dtype => panic!("no host type for {dtype:?}"),
    }
}

/// The distance of neighbouring values of `dtype` around `value`.
pub fn ulp(value: f64, dtype: DType) -> f64 {
    // Bits of the significand, and the exponent of the smallest normal value.
    let (digits, least) = match dtype {
        DType::F64 => (53, -1022),
        DType::F32 => (24, -126),
        DType::F16 => (11, -14),
        DType::BF16 => (8, -126),
        dtype => panic!("no host type for {dtype:?}"),
    };
    let exponent = if value == 0.0 { least } else { value.abs().log2().floor() as i32 };
    2f64.powi(exponent.max(least) - (digits - 1))
}

/// What a device returned, exactly.
pub fn exact(data: &TensorData) -> Vec<f64> {
    match data.dtype() {
        DType::F64 => data.as_slice::<f64>().unwrap().to_vec(),
        DType::F32 => data.as_slice::<f32>().unwrap().iter().map(|v| f64::from(*v)).collect(),
        DType::F16 => data.as_slice::<f16>().unwrap().iter().map(|v| v.to_f64()).collect(),
        DType::BF16 => data.as_slice::<bf16>().unwrap().iter().map(|v| v.to_f64()).collect(),
        dtype => panic!("no host type for {dtype:?}"),
    }
}
