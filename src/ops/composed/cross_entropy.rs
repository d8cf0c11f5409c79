use super::{cast, log_composed, sum};
use crate::ops::{CrossEntropyOptions, CrossEntropyOutput, OptionalTensor, accumulator};
use burn::{
    backend::{
        Backend, TensorMetadata,
        tensor::{BoolTensor, FloatTensor, IntTensor},
    },
    tensor::{FloatDType, IndexingUpdateOp, IntDType, Shape},
};

pub(crate) fn cross_entropy<B: Backend>(
    logits: FloatTensor<B>,
    targets: IntTensor<B>,
    weights: OptionalTensor<B>,
    options: CrossEntropyOptions,
) -> CrossEntropyOutput<B> {
    let (device, acc) = (logits.device(), accumulator(logits.dtype()));
    log_composed::<B>("cross_entropy", &device, logits.dtype());
    let [rows, columns] = logits.shape().dims();
    if rows == 0 {
        let zeros = |shape| B::float_zeros(shape, &device, acc);
        let (losses, saved) = (zeros(Shape::new([0])), zeros(Shape::new([3, 0])));
        return CrossEntropyOutput { losses, saved };
    }
    let classes = Classes::<B>::of(targets, columns, options);
    let x = cast::<B>(logits, acc);
    let largest = B::float_max_dim(x.clone(), 1);
    let shifted = B::float_sub(x, largest.clone());
    let log_total = B::float_log(sum::<B>(B::float_exp(shifted.clone()), 1));
    let negative = B::float_sub(log_total.clone(), shifted);
    let ones = || B::float_ones(Shape::new([rows, 1]), &device, acc);
    let weights = weights.into_option().map(|weights| of_rows::<B>(weights, acc, [rows, columns]));
    let weight = match &weights {
        Some(weights) => B::float_gather(1, weights.clone(), classes.columns.clone()),
        None => ones(),
    };
    let of_class = B::float_gather(1, negative.clone(), classes.columns.clone());
    let mut loss = B::float_mul(of_class, weight.clone());
    let mut mass = weight;
    let smoothing = options.label_smoothing;
    if smoothing > 0.0 {
        // Before the sum, which could be past the range where the mean is not.
        let share = smoothing / columns as f64;
        let shares = match weights {
            Some(weights) => B::float_mul_scalar(weights, share.into()),
            None => B::float_full(Shape::new([1, columns]), share.into(), &device, acc),
        };
        let of_all = sum::<B>(B::float_mul(negative, shares.clone()), 1);
        let all = sum::<B>(shares, 1);
        let mixed = |of_class, of_all| {
            B::float_add(B::float_mul_scalar(of_class, (1.0 - smoothing).into()), of_all)
        };
        loss = mixed(loss, of_all);
        mass = mixed(mass, all);
    }
    let [loss, mass] = [loss, mass]
        .map(|numbers| B::float_mask_fill(numbers, classes.missing.clone(), f64::NAN.into()));
    let loss = classes.without_ignored(loss);
    let flat = |numbers| B::float_reshape(numbers, Shape::new([1, rows]));
    CrossEntropyOutput {
        losses: B::float_reshape(loss, Shape::new([rows])),
        saved: B::float_cat([largest, log_total, mass].map(flat).into(), 0),
    }
}

pub(crate) fn cross_entropy_backward<B: Backend>(
    logits: FloatTensor<B>,
    targets: IntTensor<B>,
    weights: OptionalTensor<B>,
    saved: FloatTensor<B>,
    grad: FloatTensor<B>,
    options: CrossEntropyOptions,
) -> FloatTensor<B> {
    let (dtype, acc) = (logits.dtype(), accumulator(logits.dtype()));
    let [rows, columns] = logits.shape().dims();
    if rows == 0 {
        return logits;
    }
    let classes = Classes::<B>::of(targets, columns, options);
    let number = |i: usize| {
        let one = B::float_slice(saved.clone(), &[(i..i + 1).into(), (0..rows).into()]);
        B::float_reshape(one, Shape::new([rows, 1]))
    };
    let grad = B::float_reshape(grad, Shape::new([rows, 1]));
    let distance = B::float_sub(B::float_sub(cast::<B>(logits, acc), number(0)), number(1));
    let mass = B::float_mul(number(2), grad.clone());
    let mut gradient = B::float_mul(B::float_exp(distance), mass);
    let weights = weights.into_option().map(|weights| of_rows::<B>(weights, acc, [rows, columns]));
    let smoothing = options.label_smoothing;
    if smoothing > 0.0 {
        let of_all = B::float_mul_scalar(grad.clone(), (smoothing / columns as f64).into());
        let of_all = match &weights {
            Some(weights) => B::float_mul(weights.clone(), of_all),
            None => of_all,
        };
        gradient = B::float_sub(gradient, of_all);
    }
    let of_class = B::float_mul_scalar(grad, (smoothing - 1.0).into());
    let of_class = match weights {
        Some(weights) => {
            B::float_mul(of_class, B::float_gather(1, weights, classes.columns.clone()))
        }
        None => of_class,
    };
    let gradient =
        B::float_scatter(1, gradient, classes.columns.clone(), of_class, IndexingUpdateOp::Add);
    cast::<B>(classes.without_ignored(gradient), dtype.into())
}

/// The weights of classes, for each row.
fn of_rows<B: Backend>(
    weights: FloatTensor<B>,
    accumulator: FloatDType,
    [rows, columns]: [usize; 2],
) -> FloatTensor<B> {
    let all = B::float_reshape(cast::<B>(weights, accumulator), Shape::new([1, columns]));
    B::float_expand(all, Shape::new([rows, columns]))
}

/// The classes of rows, each `[rows, 1]`.
struct Classes<B: Backend> {
    /// Those that there are, zero for others.
    columns: IntTensor<B>,
    missing: BoolTensor<B>,
    ignored: Option<BoolTensor<B>>,
}

impl<B: Backend> Classes<B> {
    fn of(targets: IntTensor<B>, columns: usize, options: CrossEntropyOptions) -> Self {
        let [rows] = targets.shape().dims();
        let bools = super::bools::<B>(&targets.device());
        // In which all numbers compare as they are.
        let targets = B::int_cast(targets, IntDType::I64);
        let targets = B::int_reshape(targets, Shape::new([rows, 1]));
        let below = B::int_lower_elem(targets.clone(), 0.into(), bools);
        let above = B::int_greater_equal_elem(targets.clone(), (columns as i64).into(), bools);
        let missing = B::bool_or(below, above);
        let ignored = options.ignore_index;
        let ignored = ignored.map(|index| B::int_equal_elem(targets.clone(), index.into(), bools));
        Self { columns: B::int_mask_fill(targets, missing.clone(), 0.into()), missing, ignored }
    }

    /// Zero in the rows that are left out.
    fn without_ignored(&self, numbers: FloatTensor<B>) -> FloatTensor<B> {
        match &self.ignored {
            Some(ignored) => {
                let shape = numbers.shape();
                let ignored = B::bool_expand(ignored.clone(), shape);
                B::float_mask_fill(numbers, ignored, 0.into())
            }
            None => numbers,
        }
    }
}
