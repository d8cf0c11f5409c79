//! Every layout of every tensor gives what the oracle gives, and the bits of its dense copy.

use crate::{
    compare::{Report, Verdict, same_bits},
    deliver::deliver,
    device,
    layout::{LAYOUTS, Laid, Layout},
    op::{Data, Op, Outcome, differentiate, dtypes},
    pairs,
    random::Random,
    values::Values,
};
use burn::tensor::{DType, Device, Slice, Tensor};

/// Inputs of three dimensions, each with a layout.
pub struct Case {
    x: Laid,
    dy: Laid,
    data: Data,
}

impl Case {
    /// Of normal values.
    fn new<O: Op>(
        layouts: (Layout, Layout),
        shape: [usize; 3],
        axes: usize,
        (dtype, parameters): (DType, Option<DType>),
        random: &mut Random,
    ) -> Self {
        let parameters: Vec<_> = O::PARAMETERS.iter().map(|_| parameters).collect();
        Self::of(layouts, shape, axes, (dtype, &parameters), Random::normal, random)
    }

    /// With x of `values`, and a type for each parameter that there is.
    pub fn of(
        (x, dy): (Layout, Layout),
        shape: [usize; 3],
        axes: usize,
        (dtype, parameters): (DType, &[Option<DType>]),
        values: impl FnMut(&mut Random) -> f64,
        random: &mut Random,
    ) -> Self {
        let x = Laid::random(x, shape, dtype, values, random);
        let dy = Laid::random(dy, shape, dtype, Random::normal, random);
        let row = &shape[3 - axes..];
        let mut parameter = |dtype| Values::of(row, dtype, |_| 1.0 + 0.5 * random.normal());
        let parameters = parameters.iter().map(|dtype| dtype.map(&mut parameter)).collect();
        let data = Data { x: x.values.clone(), dy: dy.values.clone(), parameters, axes };
        Self { x, dy, data }
    }

    /// A run, and whether the sources that its tensors lie in are as they were.
    fn run<O: Op>(&self, op: O, device: &Device) -> (Outcome, Vec<Verdict>) {
        let [x, dy] = [&self.x, &self.dy].map(|laid| laid.tensors(device));
        let outcome = match self.data.axes {
            1 => differentiate::<O, 3, 1>(op, x.1, self.data.parameters(device), dy.1),
            2 => differentiate::<O, 3, 2>(op, x.1, self.data.parameters(device), dy.1),
            3 => differentiate::<O, 3, 3>(op, x.1, self.data.parameters(device), dy.1),
            axes => panic!("no such axes in this test: {axes}"),
        };
        let untouched = |name, laid: &Laid, source: Tensor<3>| {
            same_bits(name, &laid.source.tensor::<3>(device).into_data(), &source.into_data())
        };
        let verdicts =
            vec![untouched("x's source", &self.x, x.0), untouched("dy's source", &self.dy, dy.0)];
        (outcome, verdicts)
    }

    pub fn check<O: Op>(&self, op: O, device: &Device, report: &mut Report) {
        let case = format!("x {:?}, dy {:?}", self.x.layout, self.dy.layout);
        let (outcome, untouched) = self.run(op, device);
        self.data.check(op, &outcome, report, &case);
        report.add(&case, untouched);
        if device::keeps_bits() {
            report.add(&case, outcome.same_bits::<O>(&self.data.run(op, device)));
        }
    }
}

/// Each layout of the input, of the incoming gradient, and of both.
pub fn inputs_and_gradients<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("inputs_and_gradients"), Report::default());
    let dtypes = dtypes::<O>(&device);
    // Rows of two dimensions come without parameters.
    let shapes = [([4, 3, 64], 1), ([3, 5, 33], 1), ([2, 2, 3584], 1), ([4, 6, 64], 2)];
    let shapes = if O::AXES > 1 { &shapes[..] } else { &shapes[..3] };
    let sizes = [LAYOUTS.len(), 3, shapes.len(), dtypes.len()];
    for [layout, laid, shape, dtype] in pairs::combinations(sizes, &mut random) {
        let (layout, dense) = (LAYOUTS[layout], Layout::Contiguous);
        let layouts = [(layout, dense), (dense, layout), (layout, layout)][laid];
        let ((shape, axes), dtype) = (shapes[shape], dtypes[dtype]);
        let types = (dtype, (axes == 1).then_some(dtype));
        let case = Case::new::<O>(layouts, shape, axes, types, &mut random);
        case.check(op, &device, &mut report);
    }
    report.finish();
}

/// Each layout of the parameters, here of three dimensions.
pub fn parameters<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    if O::PARAMETERS.is_empty() {
        return println!("skipped: {} has no parameters", O::NAME);
    }
    let (mut random, mut report) = (Random::of("parameters"), Report::default());
    for dtype in dtypes::<O>(&device) {
        for layout in LAYOUTS {
            let row = [4, 3, 64];
            let mut data = Data::random::<O>(&[5, 4, 3, 64], 3, dtype, None, &mut random);
            let draw = |random: &mut Random| 1.0 + 0.5 * random.normal();
            let laid: Vec<_> = O::PARAMETERS
                .iter()
                .map(|_| Laid::random(layout, row, dtype, draw, &mut random))
                .collect();
            data.parameters = laid.iter().map(|laid| Some(laid.values.clone())).collect();
            let (x, dy) = (data.x.tensor::<4>(&device), data.dy.tensor(&device));
            let views = laid.iter().map(|laid| Some(laid.tensors(&device).1)).collect();
            let outcome = differentiate::<O, 4, 3>(op, x, views, dy);
            data.check(op, &outcome, &mut report, &format!("parameters {layout:?}"));
        }
    }
    report.finish();
}

/// Gradients as the backward passes of Burn's own ops lay them.
pub fn gradients_of_other_ops<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("gradients_of_other_ops"), Report::default());
    let layouts = [
        Layout::Permuted([1, 0, 2]),
        Layout::Permuted([0, 2, 1]),
        Layout::Slice { dim: 0, before: 1, after: 1 },
        Layout::Slice { dim: 1, before: 1, after: 0 },
        Layout::Slice { dim: 2, before: 64, after: 64 },
        Layout::Step { dim: 2, step: 2 },
    ];
    for shape in [[4, 3, 64], [3, 5, 33]] {
        for layout in layouts {
            let (pair, types) = ((Layout::Contiguous, layout), (DType::F32, Some(DType::F32)));
            let case = Case::new::<O>(pair, shape, 1, types, &mut random);
            let x = case.data.x.tensor::<3>(&device).autodiff().require_grad();
            let parameters: Vec<_> = case
                .data
                .parameters::<1>(&device)
                .into_iter()
                .map(|p| p.map(|p| p.autodiff().require_grad()))
                .collect();
            let y = op.forward(x.clone(), parameters.clone());
            let whole = embed(layout, y.clone());
            let gradient = case.dy.source.tensor::<3>(&device);
            let gradients = deliver(whole, gradient).backward();
            let gradient = |p: &Option<Tensor<1>>| p.as_ref()?.grad(&gradients);
            let outcome = Outcome {
                dx: x.grad(&gradients).map(Tensor::into_data),
                parameters: parameters.iter().map(|p| gradient(p).map(Tensor::into_data)).collect(),
                y: y.into_data(),
            };
            case.data.check(op, &outcome, &mut report, &format!("dy by the op of {layout:?}"));
        }
    }
    report.finish();
}

/// The tensor that has `y` in `layout`: the op whose gradient takes it from there.
fn embed(layout: Layout, y: Tensor<3>) -> Tensor<3> {
    let filled = |dim: usize, size: usize| {
        let mut shape = y.dims();
        shape[dim] = size;
        Values::of(&shape, DType::F32, |_| 0.0).tensor::<3>(&y.device())
    };
    match layout {
        Layout::Permuted(axes) => {
            let inverse = [0, 1, 2].map(|i| axes.iter().position(|axis| *axis == i).unwrap());
            y.permute(inverse.map(|axis| axis as isize))
        }
        Layout::Slice { dim, before, after } => {
            let around = [(before, 0), (0, after)].map(|(before, after)| before + after);
            let [front, back] = around.map(|size| filled(dim, size));
            let parts = [(before, front), (1, y), (after, back)];
            let parts = parts.into_iter().filter(|(size, _)| *size > 0);
            Tensor::cat(parts.map(|(_, part)| part).collect(), dim)
        }
        Layout::Step { dim, step } => {
            let mut slices = y.dims().map(|size| Slice::from(0..size as isize));
            slices[dim] = Slice::new(0, None, step as isize);
            filled(dim, y.dims()[dim] * step).slice_assign(slices, y)
        }
        layout => panic!("no op of Burn's has the gradient layout {layout:?}"),
    }
}
