//! The bits that a training ends with.

use crate::train::Run;
use burn::{
    module::{Module, ModuleVisitor, Param},
    tensor::{Tensor, TensorData},
};

/// Every parameter of a model, by its path.
pub fn parameters(model: &impl Module) -> Vec<(String, TensorData)> {
    let mut visitor = Visitor::default();
    model.visit(&mut visitor);
    visitor.parameters
}

#[derive(Default)]
struct Visitor {
    path: Vec<String>,
    parameters: Vec<(String, TensorData)>,
}

impl ModuleVisitor for Visitor {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.parameters.push((self.path.join("."), param.val().into_data()));
    }

    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }
}

/// Says that two runs are the same to the bit, or where they are not.
pub fn compare([first, second]: &[Run; 2]) -> Result<String, String> {
    let steps = first.losses.len();
    let bits = |run: &Run| run.losses.iter().map(|loss| loss.to_bits()).collect::<Vec<_>>();
    let apart = bits(first).iter().zip(bits(second)).position(|(a, b)| *a != b);
    if let Some(step) = apart {
        return Err(format!("the losses of step {} differ: not deterministic", step + 1));
    }
    let pairs = first.parameters.iter().zip(&second.parameters);
    let differ = pairs.filter(|((_, a), (_, b))| a.as_bytes() != b.as_bytes());
    let differ: Vec<_> = differ.map(|((name, _), _)| name.as_str()).collect();
    if differ.is_empty() {
        let count = first.parameters.len();
        Ok(format!(
            "two runs of {steps} steps: the same bits in all losses and in all {count} parameters"
        ))
    } else {
        Err(format!("these parameters differ, so it is not deterministic: {}", differ.join(", ")))
    }
}
