//! Whatever comes up: inputs of any shape, layout, type and size, and arguments right and wrong.

use super::layouts::Case;
use crate::{
    compare::Report,
    device,
    layout::Layout,
    op::{Checked, Op, dtypes},
    pairs, panics, property,
    random::Random,
};
use burn::tensor::{DType, Device, Tensor};
use proptest::{option, prelude::*, sample::select};

/// Normal values of this mean and deviation.
type Spread = (f64, f64);

/// Means up to a thousand deviations, deviations from 2⁻⁶ to 2⁶; now and then none.
fn any_spread() -> impl Strategy<Value = Spread> {
    let deviation =
        prop_oneof![9 => (-6..=6i32).prop_map(|power| 2f64.powi(power)), 1 => Just(0.0)];
    (select(vec![0.0, 0.0, 1.0, -10.0, 100.0, -1000.0]), deviation).prop_map(|(mean, deviation)| {
        (mean * if deviation > 0.0 { deviation } else { 1.0 }, deviation)
    })
}

/// Rows of up to 139 elements, and some longer.
pub fn any_length() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 1..140usize, 2 => 140..1100usize, 1 => 1100..9000usize]
}

pub fn any_layout() -> impl Strategy<Value = Layout> {
    let axes = Just([0, 1, 2]).prop_shuffle();
    prop_oneof![
        Just(Layout::Contiguous),
        (0..3usize, 0..70usize, 0..70usize).prop_map(|(dim, before, after)| Layout::Slice {
            dim,
            before,
            after
        }),
        (0..3usize, 2..4usize).prop_map(|(dim, step)| Layout::Step { dim, step }),
        axes.prop_map(Layout::Permuted),
        (0..3usize).prop_map(Layout::Expanded),
        (1..9usize).prop_map(|step| Layout::Windows { step }),
        Just(Layout::Apart),
    ]
}

/// It gives what the oracle gives, the bits of its dense copy, and leaves alone what it was cut from.
pub fn any_input<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    // Every combination is a kernel of its own, so that many cases share the commonest.
    let any_dtype = select(dtypes::<O>(&device));
    let dtype = prop_oneof![3 => Just(DType::F32), 1 => any_dtype.clone()];
    let as_x_or_other = option::weighted(0.2, any_dtype);
    let parameters = vec![option::weighted(0.8, as_x_or_other); O::PARAMETERS.len()];
    let strategy = (
        (1..6usize, 1..8usize, any_length()),
        1..=O::AXES.min(3),
        (any_layout(), any_layout()),
        (dtype, parameters),
        any_spread(),
        any::<u64>(),
    );
    let cases = property::cases_of_kernels();
    property::check(cases, &strategy, |(shape, axes, layouts, types, spread, seed)| {
        let (mut report, mut random) = (Report::default(), Random::from_seed(seed));
        let (mean, deviation) = spread;
        let values = |random: &mut Random| mean + deviation * random.normal();
        let (dtype, parameters) = types;
        let parameters: Vec<_> =
            parameters.into_iter().map(|p| p.map(|other| other.unwrap_or(dtype))).collect();
        let types = (dtype, parameters.as_slice());
        let case = Case::of(layouts, shape.into(), axes, types, values, &mut random);
        case.check(op, &device, &mut report);
        report.into_result()
    });
}

/// Arguments of a call, which may not fit together.
#[derive(Debug, Clone)]
struct Arguments {
    shape: Vec<usize>,
    /// Those of the parameters have this shape.
    row: Vec<usize>,
    given: Vec<bool>,
    dtype: DType,
}

impl Arguments {
    /// Whether the documentation allows them.
    fn fit<O: Op>(&self) -> bool {
        if O::PARAMETERS.is_empty() {
            return true;
        }
        let (rank, axes) = (self.shape.len(), self.row.len());
        (1..=rank).contains(&axes)
            && !self.shape[rank - axes..].contains(&0)
            && (self.shape[rank - axes..] == self.row || !self.given.contains(&true))
    }

    /// The call returns, and its twin panics with the error it returns if it does.
    fn check<O: Checked>(&self, op: O, device: &Device) -> Result<(), String> {
        macro_rules! ranks {
            ($($d:literal)+) => {
                match self.shape.len() {
                    $($d => match self.row.len() {
                        0 => self.check_ranked::<O, $d, 0>(op, device),
                        1 => self.check_ranked::<O, $d, 1>(op, device),
                        2 => self.check_ranked::<O, $d, 2>(op, device),
                        3 => self.check_ranked::<O, $d, 3>(op, device),
                        _ => self.check_ranked::<O, $d, 4>(op, device),
                    })+
                    rank => panic!("no such rank in this test: {rank}"),
                }
            };
        }
        ranks!(1 2 3)
    }

    fn check_ranked<O: Checked, const D: usize, const K: usize>(
        &self,
        op: O,
        device: &Device,
    ) -> Result<(), String> {
        let x =
            Tensor::<D>::ones(<[usize; D]>::try_from(&*self.shape).unwrap(), (device, self.dtype));
        let parameter = || Tensor::<K>::ones(<[usize; K]>::try_from(&*self.row).unwrap(), device);
        let parameters: Vec<_> = self.given.iter().map(|given| given.then(parameter)).collect();
        let execution = op.execution(&x, &parameters);
        let twin = panics::message(|| op.forward(x.clone(), parameters.clone()));
        match op.attempt(x, parameters) {
            Ok(y) if !self.fit::<O>() => Err(format!("it is taken, and gives {:?}", y.dims())),
            Err(error) if self.fit::<O>() => Err(format!("it is refused: {error}")),
            Ok(y) => {
                let y = y.into_data();
                match (twin, execution) {
                    (None, Ok(_))
                        if y.shape().to_vec() == self.shape && y.dtype() == self.dtype =>
                    {
                        Ok(())
                    }
                    (twin, execution) => Err(format!("{y} {twin:?} {execution:?}")),
                }
            }
            Err(error) if twin == Some(error.to_string()) && execution == Err(error.clone()) => {
                Ok(())
            }
            Err(error) => Err(format!("{error}; the twin {twin:?}, the execution {execution:?}")),
        }
    }
}

/// The last `axes` dimensions, or as many as there are.
fn last(axes: usize, shape: &[usize]) -> Vec<usize> {
    shape[shape.len().saturating_sub(axes)..].to_vec()
}

/// Arguments that the documentation allows are taken, and others are refused: no call panics, but the
/// twin that does with the error.
pub fn any_arguments<O: Checked>(op: O) {
    let Some(device) = device::open() else { return };
    let sizes = |ranks| proptest::collection::vec(0..5usize, ranks);
    let strategy = (
        sizes(1..=3),
        // The shape of a row, or any.
        prop_oneof![3 => (1..=3usize).prop_map(Ok), 2 => sizes(0..=4).prop_map(Err)],
        vec![any::<bool>(); O::PARAMETERS.len()],
        select(dtypes::<O>(&device)),
    );
    let strategy = strategy.prop_map(|(shape, row, given, dtype)| {
        let row = row.map_or_else(|sizes| sizes, |axes| last(axes, &shape));
        // Burn makes no tensor of rank 0.
        let given = given.into_iter().map(|given| given && !row.is_empty()).collect();
        Arguments { shape, row, given, dtype }
    });
    let cases = if pairs::all() { 400 } else { 150 };
    property::check(cases, &strategy, |arguments| arguments.check(op, &device));
}
