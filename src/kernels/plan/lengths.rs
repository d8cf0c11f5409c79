//! Rows whose length changes from call to call: few kernels for all of them.

use super::{Blueprint, Ends, Hardware, Op, Pass, vector_width};

/// Rows of up to so many elements share kernels where lengths change.
const LENGTHS: usize = 4096;

/// [`vector_width`] where lengths change: with planes, where there are kernels for many lengths, the
/// widest vector or, where that can have no part of a row, single elements.
pub(crate) fn vector_width_for_lengths(
    columns: usize,
    size: usize,
    widths: impl Iterator<Item = usize> + Clone,
    hardware: Hardware,
) -> usize {
    if hardware.plane == 1 || columns > LENGTHS {
        return vector_width(columns, size, widths, hardware);
    }
    let widest = widths.max().unwrap_or(1);
    if hardware.by_address || columns.is_multiple_of(widest) { widest } else { 1 }
}

/// Vectors of the longest row that shares its kernel with one of `vectors`.
fn bucket(vectors: usize, width: usize, size: usize, ragged: bool, hardware: Hardware) -> usize {
    // Elements one by one; else between powers of two what models are as wide as: 768, 1,536, 3,072.
    let buckets: &[usize] = match (width, size, ragged) {
        (1, ..) => &[32, 256, 1024, 2048],
        (_, 0..=2, false) => &[32, 64, 96, 128, 192, 256, 384],
        (_, 4, false) => &[32, 64, 128, 192, 256, 512],
        _ => &[64, 128, 256, 512, 1024],
    };
    let most = LENGTHS.div_ceil(width);
    let fits = |bucket: &usize| *bucket >= vectors && *bucket >= hardware.plane;
    buckets.iter().copied().find(fits).unwrap_or(most).min(most)
}

impl Blueprint {
    /// The blueprint where lengths change from call to call, as those of softmax do in generation and
    /// in bucketed batches: few kernels for all up to 4,096 (see [`vector_width_for_lengths`]).
    pub(crate) fn for_lengths(
        op: Op,
        pass: Pass,
        columns: usize,
        width: usize,
        size: usize,
        hardware: Hardware,
    ) -> Self {
        if hardware.plane == 1 || columns > LENGTHS {
            return Self::new(op, pass, columns, width, size, hardware);
        }
        let ragged = !columns.is_multiple_of(width);
        let bucket = bucket(columns.div_ceil(width), width, size, ragged, hardware);
        let ends = Ends { exact: false, ragged, tight: false };
        let full = Self::new(op, pass, bucket * width, width, size, hardware);
        Self { ends, ..full }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{AMD, BROWSER, CPU, H200, LLVMPIPE, SPIRV},
        *,
    };
    use std::collections::BTreeSet;

    /// A kernel is compiled for each width and blueprint, and again where it writes over its input.
    #[test]
    fn few_kernels_serve_all_lengths() {
        let widths = |hardware: Hardware, size: usize| {
            let bytes = if hardware.cpu { 64 } else { 16 };
            (0..7).map(|power| 1 << power).filter(move |width| width * size <= bytes)
        };
        for hardware in [H200, AMD, BROWSER, LLVMPIPE, SPIRV, CPU] {
            let works = [Op::Softmax, Op::LogSoftmax, Op::CrossEntropy]
                .into_iter()
                .flat_map(|op| [Pass::Forward, Pass::Backward].map(|pass| (op, pass)));
            for (op, pass, size) in
                works.flat_map(|(op, pass)| [2, 4, 8].map(|size| (op, pass, size)))
            {
                let kernels: BTreeSet<_> = (1..=LENGTHS)
                    .map(|length| {
                        let widths = widths(hardware, size);
                        let width = vector_width_for_lengths(length, size, widths, hardware);
                        let vectors = length.div_ceil(width);
                        let blueprint =
                            Blueprint::for_lengths(op, pass, length, width, size, hardware);
                        assert!(blueprint.chunked || blueprint.lanes * blueprint.held >= vectors);
                        format!("{width} {blueprint:?}")
                    })
                    .collect();
                let count = 2 * kernels.len();
                assert!(
                    count <= 24,
                    "{op:?} {pass:?} of {size} bytes, {hardware:?}: {count} kernels"
                );
            }
        }
    }
}
