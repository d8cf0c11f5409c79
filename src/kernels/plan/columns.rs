//! Sums that run down columns: softmax along another dimension than the last, and parameter gradients.

use super::{Hardware, Pass, dividing_width};

/// How the units of a cube share columns, where a sum runs down them. Compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ColumnBlueprint {
    /// Vectors of columns in a cube.
    pub lanes: usize,
    /// Units that share each: a power of two.
    pub splits: usize,
    /// Vectors that each unit holds in registers.
    pub held: usize,
    /// Whether a column is read in chunks, once for each pass over it.
    pub chunked: bool,
}

/// The vector for `inner` columns next to one another: the widest that divides them, of those that the
/// device loads at once, but on GPUs of four elements at most, as more take too many registers once they
/// are 32 bits wide: 200,704 columns of 512 in bf16 take 139 µs on an H200, 178 in vectors of eight.
pub(crate) fn column_width(
    inner: usize,
    widths: impl Iterator<Item = usize>,
    hardware: Hardware,
) -> usize {
    dividing_width(inner, widths.filter(|width| hardware.cpu || *width <= 4))
}

impl ColumnBlueprint {
    /// The blueprint for columns `length` long, of which `inner` vectors of `width` elements of
    /// `size` bytes are next to one another.
    ///
    /// What decides the order of a column's sum, `splits`, `held` and `chunked`, takes neither of
    /// `inner` and `width`: a column gives the same bits, however many others there are.
    pub(crate) fn new(
        pass: Pass,
        length: usize,
        inner: usize,
        width: usize,
        size: usize,
        hardware: Hardware,
    ) -> Self {
        if hardware.cpu || hardware.shared == 0 {
            return Self { lanes: hardware.max_units.min(64), splits: 1, held: 4, chunked: true };
        }
        // Few and small kernels where there are no planes, as for rows; elsewhere as many vectors as there
        // are registers for. H200, µs, 512 long, 3,136 next to one another, 200,704 in all, forward: f32
        // 202, 368 with half as many vectors and twice as many units; bf16 139 and 626.
        let (units, most) = match (hardware.plane, pass) {
            (1, _) => (256, 4),
            (_, Pass::Forward) => (512, 16),
            (_, Pass::Backward) => (512, 8),
        };
        // 16-bit elements are held beside what is made of them, which is 32 bits wide.
        let most = if size <= 2 && hardware.plane > 1 { 8 } else { most };
        let units = units.min(hardware.max_units);
        let splits = length.div_ceil(most).next_power_of_two().min(1 << (units / 8).ilog2());
        let held = length.div_ceil(splits).next_power_of_two();
        let chunked = held > most;
        let held = if chunked { most.min(8) } else { held };
        // 64 or 128 bytes next to one another, or all that there are; more where columns are short.
        let bytes = if size <= 2 { 64 } else { 128 };
        let mut lanes = (bytes / (width * size)).clamp(1, inner).min(units / splits);
        while lanes * splits * 2 <= units.min(256) {
            lanes *= 2;
        }
        Self { lanes, splits, held, chunked }
    }
}

/// Into how many groups rows are cut for a sum over them, where `teams` that share a cube take the rows
/// of a group: team `t` of `T` in group `g` of `G` has the rows `gT + t`, `(g + G)T + t`,
/// `(g + 2G)T + t`, …, added in that order.
///
/// Takes shape and type alone, so that the sum is the same on devices of any size. 132 cubes of 8,192
/// columns in 16 bits, or of 4,096 in 32, fill the H200 on which the number was measured (8,192×4,096 f32,
/// RMSNorm: 101.7 µs, 106.3 with 264), as do twice as many of half the width; there are several times as
/// many where a team would have more than 512 rows, as its rounding errors grow with them. Partials of a
/// parameter are at most a sixteenth of the input's elements where there are 1,024 rows or more, a quarter
/// below, but for what makes their rows whole vectors. Of a 16-bit input that is an eighth of its memory
/// (2,048×16,384 bf16, RMSNorm: 66.5 µs; with half of it, for which half of the processors are idle, 109); a
/// sixteenth where rows are not `held`, and tiles fill the device.
///
/// Where rows have parameters of `heads` in turn, `rows` and groups are those of one; each has a group at least, so
/// that with a row a head partials have the input's size.
pub(crate) fn groups(
    rows: usize,
    columns: usize,
    heads: usize,
    size: usize,
    teams: usize,
    held: bool,
) -> usize {
    let (width, most) = match teams {
        1 if size > 2 => (4096, usize::MAX),
        1 => (8192, usize::MAX),
        _ => (8192, 2),
    };
    let filling = (132 * ((width / columns) / teams).clamp(1, most)).div_ceil(heads);
    let filling = filling * rows.div_ceil(512 * filling * teams).max(1);
    let part = if held { 16 } else { 16 * size.max(4) / size };
    let bounded = if rows * heads >= 1024 { rows / part } else { rows.div_ceil(4) };
    filling.min(bounded).min(rows.div_ceil(teams)).max(1)
}

/// How many units share the sum of a column of partials, and how many columns a cube takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ColumnPlan {
    /// Vectors of columns in a cube.
    pub columns: usize,
    /// Units for each, a power of two: unit `s` of `S` adds the partials `s, s + S, …`; then the
    /// units' sums are added as a tree.
    pub splits: usize,
}

impl ColumnPlan {
    /// For partials in vectors of `width`.
    pub(crate) fn new(width: usize, hardware: Hardware) -> Self {
        if hardware.cpu || hardware.shared == 0 {
            return Self { columns: hardware.max_units.min(64), splits: 1 };
        }
        // 128 bytes next to one another, 32 deep: 8,192×4,096 bf16, RMSNorm, takes a microsecond less on an
        // H200 than 16 deep, 1,024×1,024 0.3 less than with twice the bytes.
        let columns = (32 / width).clamp(1, hardware.max_units);
        Self { columns, splits: 1 << (hardware.max_units / columns).clamp(1, 32).ilog2() }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{AMD, BROWSER, CPU, H200, LLVMPIPE, SPIRV},
        *,
    };
    use std::collections::HashSet;

    /// Lengths and widths of all kinds, on all hardware.
    fn each(mut check: impl FnMut(Pass, usize, usize, usize, usize, Hardware)) {
        for hardware in [H200, AMD, BROWSER, LLVMPIPE, SPIRV, CPU] {
            for pass in [Pass::Forward, Pass::Backward] {
                for length in (1..300).chain([511, 512, 513, 1024, 4097, 70_000]) {
                    for inner in [1, 2, 3, 9, 64, 784] {
                        for (width, size) in [(1, 2), (8, 2), (1, 4), (4, 4), (1, 8), (2, 8)] {
                            check(pass, length, inner, width, size, hardware);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_blueprint_covers_the_column_within_the_hardware() {
        each(|pass, length, inner, width, size, hardware| {
            let blueprint = ColumnBlueprint::new(pass, length, inner, width, size, hardware);
            let ColumnBlueprint { lanes, splits, held, chunked } = blueprint;
            assert!(lanes > 0 && held > 0 && splits.is_power_of_two(), "{blueprint:?}");
            assert!(lanes * splits <= hardware.max_units, "{blueprint:?}");
            assert!(chunked || held * splits >= length, "{length} long: {blueprint:?}");
            assert!(splits == 1 || hardware.shared > 0 && !hardware.cpu, "{blueprint:?}");
        });
    }

    /// Each is compiled again where it writes over its input.
    #[test]
    fn few_kernels_serve_all_lengths() {
        for hardware in [H200, AMD, BROWSER, LLVMPIPE, SPIRV, CPU] {
            for (pass, size) in [Pass::Forward, Pass::Backward]
                .into_iter()
                .flat_map(|pass| [2, 4, 8].map(|size| (pass, size)))
            {
                for (inner, width) in [(1, 1), (9, 1), (784, 16 / size)] {
                    let of =
                        |length| ColumnBlueprint::new(pass, length, inner, width, size, hardware);
                    let kernels: HashSet<_> = (1..=4096).map(of).collect();
                    let count = 2 * kernels.len();
                    assert!(count <= 24, "{pass:?} of {size} bytes, {hardware:?}: {count}");
                }
            }
        }
    }

    #[test]
    fn the_order_of_a_column_is_that_of_its_length() {
        each(|pass, length, inner, width, size, hardware| {
            let of = |inner, width| {
                let blueprint = ColumnBlueprint::new(pass, length, inner, width, size, hardware);
                (blueprint.splits, blueprint.held, blueprint.chunked)
            };
            assert_eq!(of(inner, width), of(1, 1));
        });
    }

    /// Cores take more or fewer columns side by side, each by itself.
    #[test]
    fn the_number_of_cores_changes_no_order() {
        each(|pass, length, inner, width, size, _| {
            for max_units in [1, 2, 16, 64, 128] {
                let hardware = Hardware { max_units, ..CPU };
                let blueprint = ColumnBlueprint::new(pass, length, inner, width, size, hardware);
                let ColumnBlueprint { splits, held, chunked, .. } = blueprint;
                assert_eq!((splits, held, chunked), (1, 4, true));
                assert_eq!(ColumnPlan::new(4, hardware).splits, 1);
            }
        });
    }

    #[test]
    fn partials_take_a_sixteenth_of_the_input_at_most() {
        for rows in (1..3000).chain([4096, 32_768, 65_536, 1_000_000]) {
            for columns in [1, 31, 256, 1024, 4095, 8192, 16_384, 70_000] {
                for (size, held) in
                    [2, 4, 8].into_iter().flat_map(|size| [(size, false), (size, true)])
                {
                    let groups = groups(rows, columns, 1, size, 1, held);
                    assert!((1..=rows).contains(&groups));
                    assert!(rows == 1 || groups < rows, "partials the size of the input");
                    let partials = groups * columns * size.max(4);
                    let size = if held { size.max(4) } else { size };
                    let bound = rows * columns * size / 16;
                    assert!(rows < 1024 || partials <= bound, "{rows}x{columns} of {size} bytes");
                }
            }
        }
    }

    #[test]
    fn groups_have_few_rows_where_they_can() {
        for columns in [31, 256, 4096, 16_384] {
            for rows in [4096, 65_536, 1_000_000, 4_000_000] {
                let groups = groups(rows, columns, 1, 4, 1, true);
                assert!(rows.div_ceil(groups) <= 512, "{rows}x{columns}: {groups}");
            }
        }
    }
}
