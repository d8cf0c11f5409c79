//! Views: right, and the bits of their dense copies.

use super::{Case, Form, both};
use crate::{
    compare::{Report, same_bits},
    device,
    laws::properties::{any_layout, any_length},
    layout::{LAYOUTS, Laid, Layout},
    op::differentiate,
    pairs, property,
    random::Random,
    softmax,
};
use burn::tensor::{DType, Device};
use proptest::{prelude::*, sample::select};

both!(inputs_and_gradients, any_input);

fn inputs_and_gradients<F: Form>() {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of("dims_of_layouts"), Report::default());
    let dtypes: Vec<_> =
        softmax::dtypes(&device).into_iter().filter(|dtype| *dtype != DType::F64).collect();
    let shapes = [[4, 3, 64], [3, 65, 33]];
    let sizes = [dtypes.len(), shapes.len(), 3, LAYOUTS.len(), 3];
    for [dtype, shape, dim, layout, laid] in pairs::combinations(sizes, &mut random) {
        let (layout, dense) = (LAYOUTS[layout], Layout::Contiguous);
        let layouts = [[layout, dense], [dense, layout], [layout, layout]][laid];
        let laid = layouts.map(|layout| {
            Laid::random(layout, shapes[shape], dtypes[dtype], Random::normal, &mut random)
        });
        check::<F>(laid, dim, &device, &mut report);
    }
    report.finish();
}

fn check<F: Form>([x, dy]: [Laid; 2], dim: usize, device: &Device, report: &mut Report) {
    let case = Case { x: x.values.clone(), dy: dy.values.clone(), dim };
    let [of_x, of_dy] = [&x, &dy].map(|laid| laid.tensors(device));
    let outcome = differentiate::<F, 3, 1>(F::along(dim as isize), of_x.1, vec![], of_dy.1);
    let layouts = format!("x {:?}, dy {:?}", x.layout, dy.layout);
    case.check::<F>(&outcome, report, &layouts);
    let name = format!("along {dim}, {layouts}");
    if device::keeps_bits() {
        report.add(&name, outcome.same_bits::<F>(&case.run::<F>(false, device)));
    }
    for (name, laid, source) in [("x's source", &x, of_x.0), ("dy's source", &dy, of_dy.0)] {
        report.add(&layouts, [same_bits(name, &laid.source.data(), &source.into_data())]);
    }
}

/// The same of whatever comes up, along any dimension.
fn any_input<F: Form>() {
    let Some(device) = device::open() else { return };
    let strategy = (
        (1..6usize, 1..8usize, any_length(), 0..3usize),
        0..3usize,
        (any_layout(), any_layout()),
        prop_oneof![3 => Just(DType::F32), 1 => select(softmax::dtypes(&device))],
        any::<u64>(),
    );
    let cases = property::cases_of_kernels();
    property::check(cases, &strategy, |((a, b, long, at), dim, layouts, dtype, seed)| {
        let (mut report, mut random) = (Report::default(), Random::from_seed(seed));
        let mut shape = [a, b, long];
        shape.swap(at, 2);
        let mut laid = |layout| {
            Laid::random(layout, shape, dtype, |random| 3.0 * random.normal(), &mut random)
        };
        check::<F>([laid(layouts.0), laid(layouts.1)], dim, &device, &mut report);
        report.into_result()
    });
}
