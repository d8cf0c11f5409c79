use super::{
    element, empty_beside,
    layout::{Reading, Writing, matrix, parameter, readable},
    stored_as,
};
use crate::{
    kernels::{
        Hardware,
        cross_entropy::{Backward, Extent, Forward, LOGITS, Options, SAVED, Types},
        vector_width_for_lengths,
    },
    ops::{CrossEntropyOps, CrossEntropyOptions, CrossEntropyOutput, OptionalTensor, accumulator},
};
use burn::{
    backend::tensor::{FloatTensor, IntTensor},
    tensor::{DType, Shape},
};
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::server::Handle;

impl CrossEntropyOps for CubeBackend {
    fn cross_entropy(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        weights: OptionalTensor<Self>,
        options: CrossEntropyOptions,
    ) -> FloatTensor<Self> {
        forward(logits, targets, weights, options, false).0
    }

    fn cross_entropy_forward(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        weights: OptionalTensor<Self>,
        options: CrossEntropyOptions,
    ) -> CrossEntropyOutput<Self> {
        let (losses, saved) = forward(logits, targets, weights, options, true);
        CrossEntropyOutput { losses, saved: saved.expect("it saves them") }
    }

    fn cross_entropy_backward(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        weights: OptionalTensor<Self>,
        saved: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        options: CrossEntropyOptions,
    ) -> FloatTensor<Self> {
        let call = Call::new(&logits, &targets, weights, options);
        let Call { extent, types, options, weights, reading } = call;
        let acc = accumulator(logits.dtype).into();
        let numbers = |tensor: &CubeTensor| (tensor.meta.shape().num_elements(), tensor.dtype);
        assert_eq!(numbers(&grad), (extent.rows, acc), "the gradient is that of the losses");
        assert_eq!(numbers(&saved), (SAVED * extent.rows, acc), "saved by a forward pass");
        if extent.rows == 0 {
            return logits;
        }
        let client = logits.client.clone();
        let logits = readable(logits, reading);
        let span = |_: &CubeTensor| Some(extent.columns);
        let Writing { tensor: dlogits, output } =
            Writing::over_or_new(&logits, logits.dtype, LOGITS, reading, 1, span);
        Backward {
            extent,
            types,
            options,
            logits: matrix(logits, 1, reading),
            targets: into_contiguous(targets).handle,
            weights,
            saved: saved.handle,
            grad: into_contiguous(grad).handle,
            dlogits: output,
        }
        .launch(&client);
        dlogits
    }
}

struct Call {
    extent: Extent,
    types: Types,
    options: Options,
    weights: Option<Handle>,
    reading: Reading,
}

impl Call {
    fn new(
        logits: &CubeTensor,
        targets: &CubeTensor,
        weights: OptionalTensor<CubeBackend>,
        options: CrossEntropyOptions,
    ) -> Self {
        let [rows, columns] = logits.meta.shape().dims();
        assert_eq!(targets.meta.shape().num_elements(), rows, "each row has a target");
        let size = logits.dtype.size();
        let hardware = Hardware::of(&logits.client);
        let widths = logits.client.io_optimized_vector_sizes(size);
        let width = vector_width_for_lengths(columns, size, widths, hardware);
        let weights = weights.into_option();
        let of_all = weights.as_ref().map_or(columns, |w| w.meta.shape().num_elements());
        assert_eq!(of_all, columns, "each class has a weight");
        let types = Types {
            logits: stored_as(logits.dtype, hardware),
            targets: element(targets.dtype),
            weights: stored_as(weights.as_ref().map_or(logits.dtype, |w| w.dtype), hardware),
            accumulator: element(accumulator(logits.dtype).into()),
        };
        Self {
            extent: Extent { rows, columns, width, hardware },
            types,
            options: Options {
                ignored: options.ignore_index.filter(|index| is_one_of(*index, targets.dtype)),
                bounded: is_one_of(columns as i64, targets.dtype),
                smoothing: options.label_smoothing,
            },
            weights: weights.map(|weights| parameter(weights, width)),
            reading: Reading { axes: 1, width, piecewise: hardware.by_address },
        }
    }
}

fn forward(
    logits: CubeTensor,
    targets: CubeTensor,
    weights: OptionalTensor<CubeBackend>,
    options: CrossEntropyOptions,
    saves: bool,
) -> (CubeTensor, Option<CubeTensor>) {
    let Call { extent, types, options, weights, reading } =
        Call::new(&logits, &targets, weights, options);
    let acc = accumulator(logits.dtype).into();
    let rows = extent.rows;
    let losses = empty_beside(&logits, Shape::new([rows]), acc);
    let saved = saves.then(|| empty_beside(&logits, Shape::new([SAVED, rows]), acc));
    if rows > 0 {
        let client = logits.client.clone();
        Forward {
            extent,
            types,
            options,
            logits: matrix(readable(logits, reading), 1, reading),
            targets: into_contiguous(targets).handle,
            weights,
            losses: losses.handle.clone(),
            saved: saved.as_ref().map(|saved| saved.handle.clone()),
        }
        .launch(&client);
    }
    (losses, saved)
}

/// Whether an integer type has the number.
fn is_one_of(number: i64, dtype: DType) -> bool {
    match dtype {
        DType::I64 => true,
        DType::I32 => i32::try_from(number).is_ok(),
        DType::I16 => i16::try_from(number).is_ok(),
        DType::I8 => i8::try_from(number).is_ok(),
        DType::U64 => u64::try_from(number).is_ok(),
        DType::U32 => u32::try_from(number).is_ok(),
        DType::U16 => u16::try_from(number).is_ok(),
        DType::U8 => u8::try_from(number).is_ok(),
        _ => false,
    }
}
