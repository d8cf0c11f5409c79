//! How much of a row, and how many rows, a cube takes, as measured.

use super::{Hardware, Op, Pass};
use std::ops::RangeInclusive;

/// What plans are made for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub op: Op,
    pub pass: Pass,
    /// Elements of a row.
    pub columns: usize,
    /// Bytes of an element.
    pub size: usize,
    /// Whether a row's last vector is a part of one.
    pub ragged: bool,
    pub hardware: Hardware,
}

/// How many units share a row, and how much of it each holds.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    /// Units that share a row at most.
    pub units: usize,
    /// Elements that a unit holds where there is a choice.
    pub good: usize,
    /// Elements that a unit holds at most, before registers run out.
    pub most: usize,
    /// Elements of the longest row that is held rather than read in chunks.
    pub longest: usize,
    /// Elements that a row has at least where sums over rows are in shared memory, of which there is room
    /// for those of the longest row.
    pub shared_sums: usize,
    /// Elements of the longest row whose parameters are loaded before its sums are known.
    pub parameters: usize,
    /// Elements of the rows while one of which is worked on the next one is loaded, if there are registers
    /// for it.
    pub ahead: RangeInclusive<usize>,
    /// Units of teams that share a cube at most, or about as many.
    pub together: usize,
    /// Units that share a row in chunks, and the elements that each holds of one.
    pub wide: (usize, usize),
    /// Cubes that share a processor's memory with rows in chunks, or none that keep any of it.
    pub sharing: Option<usize>,
}

/// Elements of a row of any length.
const ANY: usize = usize::MAX;
const NEVER: RangeInclusive<usize> = ANY..=ANY;
/// Elements of the longest row that 512 units hold in f32.
const LONGEST: usize = 16_384;

/// Whether shared memory has room for `sums` over the longest rows in f32.
fn has_room(sums: usize, hardware: Hardware) -> bool {
    sums * LONGEST * 4 <= shared_room(hardware)
}

impl Limits {
    /// Measured on an H200, µs, rows by columns; CubeCL 0.11.3.
    pub fn new(case: Case) -> Self {
        let most = case.hardware.max_units;
        let limits = match case.pass {
            Pass::Forward => Self::forward(case),
            Pass::Backward => Self::backward(case),
        };
        let [units, together] = [limits.units, limits.together].map(|units| units.min(most));
        let (lanes, elements) = limits.wide;
        Self { units, together, wide: (lanes.min(most), elements), ..limits }
    }

    fn forward(case: Case) -> Self {
        let Case { op, columns, size, .. } = case;
        let base = Self {
            // More leave no room for the registers of 32 elements, but are better than chunks.
            units: if columns <= 16_384 { 512 } else { 1024 },
            good: 32,
            most: 32,
            longest: ANY,
            shared_sums: ANY,
            parameters: 0,
            ahead: NEVER,
            together: 256,
            // 1,024×65,536 f32, LayerNorm: 186 with 512 units, 227 with 1,024.
            wide: (512, 32),
            sharing: Some(if size <= 2 { 2 } else { 1 }),
        };
        match (op, size) {
            // 8,192×4,096 bf16: 33.9, 35.1 with parameters loaded last, 34.6 with 16 elements.
            (Op::RmsNorm, 0..=2) => Self { parameters: 8192, ..base },
            // 65,536×256: 34.2, 34.5 with 32 elements; 4,096×5,120: 41.4, 41.7.
            // 1,024×65,536: 145 with 1,024 units, 155 with 512.
            (Op::RmsNorm, 4) => Self { good: 16, parameters: 8192, wide: (1024, 32), ..base },
            // 65,536×256: 19.4, 20.0 with half as many teams, 20.2 with 32 elements and without the next row ahead.
            (Op::LayerNorm, 0..=2) if columns <= 256 => {
                Self { good: 16, ahead: 0..=ANY, together: 512, ..base }
            }
            // 8,192×4,096: 36.6, 43.2 with parameters loaded first, 41.1 with 16 elements, 38.9 with the
            // next row ahead; but 4,096×5,120: 24.3 with it, else 27.8; 2,048×16,384: 42.2, 53.3.
            (Op::LayerNorm, 0..=2) => Self { ahead: 4097..=ANY, ..base },
            // 65,536×256: 34.5, 35.5 with 32 elements and parameters loaded last.
            (Op::LayerNorm, 4) if columns <= 2048 => Self { good: 16, parameters: 2048, ..base },
            // 2,048×16,384: 74.5, 89.0 without the next row ahead; 4,096×8,192: 73.1, 68.1. Longer rows leave
            // no registers for it.
            (Op::LayerNorm, 4) => Self { ahead: 8193..=LONGEST, ..base },
            // 1,024×65,536, by 1,024 units with 16 elements, 512 and 1,024 with 32: plain 84.9, 87.2 and 87.6, log-softmax
            // 80.5, 86.0 and 73.6.
            // 2,048×16,384 with and without the next row ahead: plain 37.4 and 39.0, log-softmax 46.7 and 38.7.
            (Op::Softmax, 0..=2) => {
                Self { ahead: 8193..=LONGEST, wide: (1024, 16), sharing: Some(1), ..base }
            }
            (Op::LogSoftmax, 0..=2) => Self { wide: (1024, 32), sharing: Some(1), ..base },
            // 4,096×32,000 held by 1,024 units: bf16 146, f32 150. A row is read once: nothing to keep.
            (Op::CrossEntropy, 0..=4) => Self {
                good: if size == 4 && columns <= 4096 { 16 } else { base.good },
                longest: LONGEST,
                sharing: None,
                ..base
            },
            // 32,768×1,024: 64.7, 66.1 with 32 elements; 4,096×8,192 log-softmax: 67.2, 70.5 with 16.
            (Op::Softmax | Op::LogSoftmax, 4) if columns <= 4096 => Self { good: 16, ..base },
            // 2,048×16,384 with and without the next row ahead: plain 72.7 and 69.1, log-softmax 72.0 and 87.9.
            // 1,024×65,536, plain and log-softmax: 159 and 150, 172 and 168 by 1,024 units with 8 elements.
            (Op::Softmax, 4) => base,
            (Op::LogSoftmax, 4) => Self { ahead: 8193..=LONGEST, ..base },
            _ => Self { good: 16, most: 16, ..base },
        }
    }

    fn backward(case: Case) -> Self {
        let Case { op, columns, size, .. } = case;
        let base = Self {
            units: 512,
            good: 32,
            most: 32,
            longest: ANY,
            shared_sums: ANY,
            parameters: 0,
            // Softmax takes a row a team.
            ahead: if op.is_softmax() { NEVER } else { 0..=ANY },
            together: 256,
            wide: (512, 16),
            sharing: None,
        };
        let ragged = case.ragged;
        match (op, size) {
            // 4,096×8,192: log-softmax 48.6, 58.4 with more units; plain 48.0, 47.7. 1,024×65,536: log-softmax 101,
            // 126 by 512 units with 16 elements.
            (Op::Softmax | Op::LogSoftmax, 0..=2) => {
                let units = if columns <= 8192 { 320 } else { 512 };
                let (wide, sharing) = match op {
                    Op::LogSoftmax => ((1024, 32), 2),
                    _ => (base.wide, 1),
                };
                Self { units, good: 16, wide, sharing: Some(sharing), ..base }
            }
            // 1,024×65,536 with a part of the row kept and without: plain 242 and 273, log-softmax 258 and 227.
            (Op::Softmax, 4) => Self { sharing: Some(1), ..base },
            (Op::LogSoftmax, 4) => Self { wide: (512, 32), ..base },
            // 4,096×128,000: bf16 524, 539 by 512 units, 535 with 16 elements; f32 1,046 and 1,056.
            (Op::CrossEntropy, 0..=4) => {
                let units = if size <= 2 && columns <= 8192 { 320 } else { 512 };
                let good = if size <= 2 { 16 } else { base.good };
                Self { units, good, wide: (1024, 32), ..base }
            }
            // 2,048×16,384: RMSNorm 63.9, 72.4 with its sums in registers, 89.0 in tiles; LayerNorm 84.2, 97.5 in tiles.
            (Op::RmsNorm | Op::LayerNorm, 0..=2) if columns > 8192 => {
                let fits = has_room(if op == Op::RmsNorm { 1 } else { 2 }, case.hardware);
                Self {
                    good: 16,
                    longest: if fits { LONGEST } else { 8192 },
                    shared_sums: if fits { 8193 } else { ANY },
                    wide: if op == Op::RmsNorm { base.wide } else { (256, 32) },
                    ..base
                }
            }
            // 8,192×4,096: 53.5, 56.7 with 16 elements; 8,192×4,095: 85.8, 61.6.
            (Op::RmsNorm, 0..=2) => {
                Self { good: if ragged { 16 } else { 8 }, together: 512, ..base }
            }
            // A second sum takes more than 64 registers. 8,192×4,096: 58.3, 69.9 with 8 elements;
            // 32,768×768: 44.6, 55.0 with two teams; 65,536×256: 30.3, 40.1 with 16.
            (Op::LayerNorm, 0..=2) => Self {
                good: 16,
                most: 16,
                ahead: if ragged { NEVER } else { 0..=ANY },
                together: if columns <= 256 { 512 } else { 384 },
                ..base
            },
            // 16,384×2,048: 101.1, 104.9 with two teams; 8,192×4,095: 104.5, 105.8 with 32 elements;
            // 2,048×16,384: 110, 125 with its sums in registers.
            (Op::RmsNorm, 4) if columns >= 2048 => {
                let shared_sums = if has_room(1, case.hardware) { 8193 } else { ANY };
                Self { good: 16, together: 128, shared_sums, ..base }
            }
            (Op::RmsNorm, 4) => base,
            // 16,384×2,048: 101.0; 8,192×4,096: 105.8, 108.9 alone; 4,096×5,120: 66.0, 79.6 without the next
            // row ahead; 4,096×8,192: 101.6, 107 with its sums in registers; 2,048×16,384: 114, 182 in
            // tiles.
            (Op::LayerNorm, 4) => Self {
                good: if ragged || columns >= 8192 { 16 } else { 32 },
                longest: if has_room(2, case.hardware) { LONGEST } else { 8192 },
                shared_sums: if has_room(2, case.hardware) { 8192 } else { ANY },
                together: if (2048..4096).contains(&columns) { 128 } else { 256 },
                ..base
            },
            // Well within the registers: where they spilled, a 16-bit gamma beside f64 gave NaN. The
            // cause was not found.
            _ => Self { units: 256, good: 8, most: 8, longest: 8192, ..base },
        }
    }
}

/// Whether a cube's registers hold the next row's input and gradient as well: a unit's `elements`
/// of a sum in 32 bits, and of gamma, two rows and the next two in their type.
///
/// Loading ahead gains 5 to 10% on an H200; without the registers for it, f32 of 16,384 columns
/// took four times as long.
pub(super) fn spares(lanes: usize, elements: usize, size: usize) -> bool {
    const CUBE: usize = 65_536;
    const OTHERS: usize = 32;
    elements + 5 * elements * size / 4 + OTHERS <= CUBE / lanes
}

/// How many teams of `lanes` units that each hold `elements` elements share a cube.
pub(super) fn teams(case: Case, lanes: usize, elements: usize, limits: &Limits) -> usize {
    let Case { op, pass, size, hardware, .. } = case;
    let most = (limits.together / lanes).max(1);
    match (pass, op) {
        // So that 32 cubes do not limit a multiprocessor.
        (Pass::Forward, _) if lanes <= hardware.plane => most,
        (Pass::Forward, _) => 1,
        (Pass::Backward, op) if op.is_softmax() => most.min(256 / lanes.min(256)),
        // As many as make partial sums for `groups` few, with room for a sum of each to meet in
        // shared memory.
        (Pass::Backward, _) => {
            let room = shared_room(hardware).min(65_536) / (lanes * elements * size.max(4));
            let nearest = if op == Op::RmsNorm && size <= 2 {
                // 32,768×768: 41.1, 43.5 with 4 teams; 4,096×5,120: 36.4 with 2, 42.8 alone.
                (limits.together + lanes / 2) / lanes
            } else {
                1 << most.ilog2()
            };
            nearest.min(room).min(hardware.max_units / lanes).max(1)
        }
    }
}

/// Bytes of shared memory beside those that sums over a row meet in.
fn shared_room(hardware: Hardware) -> usize {
    hardware.shared.saturating_sub(4096)
}

/// Whole chunks of `chunk` vectors that shared memory has room for, of the one row or the two that a pass
/// reads twice.
pub(super) fn kept(
    case: Case,
    limits: &Limits,
    vectors: usize,
    width: usize,
    chunk: usize,
) -> usize {
    let Some(cubes) = limits.sharing else { return 0 };
    let rows = if case.pass == Pass::Forward { 1 } else { 2 };
    let room = shared_room(case.hardware) / (cubes * rows * width * case.size * chunk);
    room.min(vectors.div_ceil(chunk)) * chunk
}
