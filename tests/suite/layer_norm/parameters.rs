//! Every choice of parameters, their types and what is tracked.

use super::LayerNorm;
use crate::{
    compare::Report,
    device,
    laws::graph::check_tracked,
    op::{Data, Op},
    pairs,
    random::Random,
};
use burn::tensor::{DType, Device};

struct Choices {
    device: Device,
    random: Random,
    report: Report,
}

impl Choices {
    fn open(test: &str) -> Option<Self> {
        let device = device::open()?;
        Some(Self { device, random: Random::of(test), report: Report::default() })
    }

    /// Random inputs, of which gamma and beta are left out or have the given types.
    fn data(&mut self, shape: &[usize], axes: usize, types: [Option<DType>; 3]) -> Data {
        let [x, parameters @ ..] = types;
        let x = x.expect("x has a type");
        let [gamma, beta] = parameters.map(|dtype| {
            Data::random::<LayerNorm>(shape, axes, x, dtype, &mut self.random).parameters.remove(0)
        });
        let data = Data::random::<LayerNorm>(shape, axes, x, None, &mut self.random);
        Data { parameters: vec![gamma, beta], ..data }
    }

    /// Runs `data` with what is given tracked of x, gamma and beta in the bits of `subset`, the others on
    /// a device without autodiff or with it.
    fn check(&mut self, data: &Data, subset: usize, with_autodiff: bool) {
        let op = LayerNorm::default();
        let given = [true, data.parameters[0].is_some(), data.parameters[1].is_some()];
        let given = (0..3).filter(|leaf| given[*leaf]).fold(0, |bits, leaf| bits | 1 << leaf);
        let subset = subset & given;
        let (device, report) = (&self.device, &mut self.report);
        let untracked = if with_autodiff { device.clone().autodiff() } else { device.clone() };
        match (data.x.shape.len(), data.axes) {
            (2, 1) => check_tracked::<_, 2, 1>(op, data, subset, device, &untracked, report),
            (3, 1) => check_tracked::<_, 3, 1>(op, data, subset, device, &untracked, report),
            (3, 2) => check_tracked::<_, 3, 2>(op, data, subset, device, &untracked, report),
            ranks => panic!("no such ranks in this test: {ranks:?}"),
        }
    }
}

const SUBSETS: usize = 1 << 3;

/// Neither, either and both parameters, each in each type.
#[test]
fn each_in_its_own_type() {
    let Some(mut choices) = Choices::open("each_in_its_own_type") else { return };
    let dtypes = device::dtypes(&choices.device);
    let or_none: Vec<_> = [None].into_iter().chain(dtypes.iter().copied().map(Some)).collect();
    let sizes = [dtypes.len(), or_none.len(), or_none.len(), SUBSETS, 2];
    for [x, gamma, beta, subset, with] in pairs::combinations(sizes, &mut choices.random) {
        let types = [Some(dtypes[x]), or_none[gamma], or_none[beta]];
        let data = choices.data(&[5, 67], 1, types);
        choices.check(&data, subset, with == 1);
    }
    choices.report.finish();
}

/// Rows of one and two dimensions, many, one and none of them.
#[test]
fn each_choice_in_each_shape() {
    let Some(mut choices) = Choices::open("each_choice_in_each_shape") else { return };
    let f32 = Some(DType::F32);
    let shapes = [[7, 3, 43], [1, 1, 1], [3, 2, 1], [0, 3, 11], [3, 0, 11], [2, 2, 4097]];
    let cases: Vec<_> = shapes.into_iter().flat_map(|shape| [(shape, 1), (shape, 2)]).collect();
    let cases: Vec<_> =
        cases.into_iter().filter(|(shape, axes)| !shape[3 - axes..].contains(&0)).collect();
    let parameters = [[None, None], [f32, None], [None, f32], [f32, f32]];
    let sizes = [cases.len(), parameters.len(), SUBSETS, 2];
    for [case, given, subset, with] in pairs::combinations(sizes, &mut choices.random) {
        let ((shape, axes), [gamma, beta]) = (cases[case], parameters[given]);
        let data = choices.data(&shape, axes, [f32, gamma, beta]);
        choices.check(&data, subset, with == 1);
    }
    choices.report.finish();
}

/// A gradient in a narrow type is rounded to it once, from a sum in the accumulator's.
#[test]
fn narrow_gradients_of_many_rows() {
    let Some(mut choices) = Choices::open("narrow_gradients_of_many_rows") else { return };
    for dtype in device::dtypes(&choices.device).into_iter().filter(|dtype| dtype.size() == 2) {
        for types in [[DType::F32, dtype, dtype], [dtype, DType::F32, dtype], [dtype; 3]] {
            let data = choices.data(&[4099, 24], 1, types.map(Some));
            let outcome = data.run(LayerNorm::default(), &choices.device);
            data.check(LayerNorm::default(), &outcome, &mut choices.report, LayerNorm::NAME);
        }
    }
    choices.report.finish();
}
