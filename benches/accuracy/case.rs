use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_fused::{
    FusedError, layer_norm, layer_norm_execution, log_softmax, log_softmax_execution,
    ops::Execution, rms_norm, rms_norm_execution, softmax, softmax_execution,
};
use std::{error::Error, fs, path::Path, str::FromStr};

/// A line of the manifest: op, element type, rows, columns, epsilon, and the stem of its inputs'
/// files.
pub struct Case {
    op: String,
    pub dtype: DType,
    rows: usize,
    columns: usize,
    epsilon: f64,
    inputs: String,
}

impl FromStr for Case {
    type Err = Box<dyn Error>;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [op, dtype, rows, columns, epsilon, inputs] = fields[..] else {
            return Err(format!("not a case: {line}").into());
        };
        let dtype = match dtype {
            "f32" => DType::F32,
            "bf16" => DType::BF16,
            "f16" => DType::F16,
            _ => return Err(format!("not an element type: {dtype}").into()),
        };
        Ok(Self {
            op: op.into(),
            dtype,
            rows: rows.parse()?,
            columns: columns.parse()?,
            epsilon: epsilon.parse()?,
            inputs: inputs.into(),
        })
    }
}

impl Case {
    /// Runs the op and writes its output and gradients, each in raw elements. Returns the path that
    /// the op took.
    pub fn run(
        &self,
        inputs: &Path,
        outputs: &Path,
        device: &Device,
    ) -> Result<String, Box<dyn Error>> {
        let size = [self.rows, self.columns];
        let read = |name: &str| {
            let file = inputs.join(format!("{}.{name}", self.inputs));
            fs::read(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))
        };
        let x: Tensor<2> = self.tensor(read("x")?, size, device).require_grad();
        let dy: Tensor<2> = self.tensor(read("dy")?, size, device);
        let parameter = |name| -> Result<Tensor<1>, String> {
            Ok(self.tensor(read(name)?, [self.columns], device).require_grad())
        };

        let execution: Result<Execution, FusedError>;
        let mut parameters = Vec::new();
        let y = match self.op.as_str() {
            "rms_norm" => {
                let gamma = parameter("gamma")?;
                execution = rms_norm_execution(&x, Some(&gamma));
                parameters.push(("dgamma", gamma.clone()));
                rms_norm(x.clone(), Some(gamma), self.epsilon)
            }
            "layer_norm" => {
                let (gamma, beta) = (parameter("gamma")?, parameter("beta")?);
                execution = layer_norm_execution(&x, Some(&gamma), Some(&beta));
                parameters.extend([("dgamma", gamma.clone()), ("dbeta", beta.clone())]);
                layer_norm(x.clone(), Some(gamma), Some(beta), self.epsilon)
            }
            "softmax" => {
                execution = softmax_execution(&x, 1);
                softmax(x.clone(), 1)
            }
            "log_softmax" => {
                execution = log_softmax_execution(&x, 1);
                log_softmax(x.clone(), 1)
            }
            op => return Err(format!("not an op: {op}").into()),
        };
        // The gradient of y is 1 · dy, which is exact; the sum is not read.
        let gradients = (y.clone() * dy).sum().backward();

        let write = |name: &str, data: TensorData| {
            fs::write(outputs.join(format!("{}-{}.{name}", self.op, self.inputs)), data.as_bytes())
        };
        write("y", y.into_data())?;
        write("dx", x.grad(&gradients).expect("x is tracked").into_data())?;
        for (name, parameter) in parameters {
            let gradient = parameter.grad(&gradients).expect("parameters are tracked");
            write(name, gradient.into_data())?;
        }
        Ok(execution?.path.to_string())
    }

    fn tensor<const D: usize>(
        &self,
        bytes: Vec<u8>,
        size: [usize; D],
        device: &Device,
    ) -> Tensor<D> {
        Tensor::from_data(TensorData::from_bytes_vec(bytes, size, self.dtype), (device, self.dtype))
    }
}
