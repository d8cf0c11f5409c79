use burn::{
    module::{Module, ModuleVisitor, Param},
    optim::GradientsParams,
    tensor::Tensor,
};

/// Squares that are summed at once.
const ROW: usize = 1024;

/// Scales all gradients so that their norm, that of all of them together, is at most `limit` (Pascanu et al., *On the
/// difficulty of training recurrent neural networks*, 2013). Nothing is read from the device.
pub fn clip_by_global_norm(
    mut gradients: GradientsParams,
    model: &impl Module,
    limit: f64,
) -> GradientsParams {
    let mut flat = Flat { gradients: &gradients, parts: Vec::new() };
    model.visit(&mut flat);
    let Some(device) = flat.parts.first().map(Tensor::device) else { return gradients };
    // By rows and then their sums, of all at once: Burn's sum of a whole tensor may add in any order, and many small
    // sums take longer than one.
    let length: usize = flat.parts.iter().map(|part| part.dims()[0]).sum();
    flat.parts.push(Tensor::zeros([length.next_multiple_of(ROW) - length], &device));
    let rows = length.div_ceil(ROW);
    let squares = Tensor::cat(flat.parts, 0).reshape([rows, ROW]).square();
    let norm = squares.sum_dim(1).reshape([1, rows]).sum_dim(1).sqrt();
    let factor = (norm + 1e-6).recip().mul_scalar(limit).clamp_max(1.0);
    model.visit(&mut Scale { gradients: &mut gradients, factor });
    gradients
}

/// The gradients as vectors.
struct Flat<'a> {
    gradients: &'a GradientsParams,
    parts: Vec<Tensor<1>>,
}

impl ModuleVisitor for Flat<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.get::<D>(param.id) {
            self.parts.push(gradient.flatten(0, D - 1));
        }
    }
}

/// Multiplies each gradient by a factor, `[1, 1]`.
struct Scale<'a> {
    gradients: &'a mut GradientsParams,
    factor: Tensor<2>,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            let scaled = gradient * self.factor.clone().reshape([1; D]);
            self.gradients.register(param.id, scaled);
        }
    }
}
