//! How much of a row, and how many rows, a cube takes, as measured.

use super::{Hardware, Op, Pass};

/// What plans are made for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub op: Op,
    pub pass: Pass,
    /// Elements of a row.
    pub columns: usize,
    /// Bytes of an element.
    pub size: usize,
    pub hardware: Hardware,
}

/// How many units share a row, and how much of it each holds.
pub(super) struct Limits {
    /// Units that share a row at most.
    pub units: usize,
    /// Elements that a unit holds where there is a choice.
    pub good: usize,
    /// Elements that a unit holds at most, before registers run out.
    pub most: usize,
    /// Elements of the longest row that is held rather than read in chunks.
    pub longest: usize,
    /// Units of teams that share a cube at most.
    pub together: usize,
}

impl Limits {
    /// Measured on an H200, µs; CubeCL 0.11.3.
    pub fn new(case: Case) -> Self {
        let Case { op, pass, columns, size, hardware } = case;
        let limits = match (pass, op, size) {
            // 8,192×4,096 bf16: 34.5, 35.2 with 32 elements; 2,048×16,384: 52.9, 37.2 with 32.
            (Pass::Forward, Op::RmsNorm, 0..=2) if columns <= 4096 => (1024, 16, 32, 256),
            // 8,192×4,096 bf16: LayerNorm 37.4, 42.7 with 16; softmax 34.5, 35.7 with 16.
            (Pass::Forward, _, 0..=4) => (1024, 32, 32, 256),
            (Pass::Forward, ..) => (512, 16, 16, 256),
            // 8,192×4,096: within 2% of a copy's bandwidth.
            (Pass::Backward, Op::Softmax, 0..=2) => (512, 8, 32, 256),
            // 8,192×4,096 bf16: 54.4; 32,768×1,024: 53.2, 65.8 with 8 elements; 65,536×256: 29.8, with
            // 256 units together 35.7.
            (Pass::Backward, Op::RmsNorm, 0..=2) => (512, 16, 32, 512),
            // A second sum takes more than 64 registers. 8,192×4,096 bf16: 58.3, 90.4 with 8 elements;
            // 65,536×256: 34.5, with 512 units together 38.7.
            (Pass::Backward, Op::LayerNorm, 0..=2) => (512, 16, 16, 256),
            (Pass::Backward, _, 4) => (512, 32, 32, 512),
            // Well within the registers: where they spilled, a 16-bit gamma beside f64 gave NaN. The
            // cause was not found.
            (Pass::Backward, ..) => (256, 8, 8, 256),
        };
        let (units, good, most, together) = limits;
        // 2,048×16,384, LayerNorm's second sum: bf16 105 in tiles, 163 held; f32 182 and 188.
        let two_sums = (pass, op) == (Pass::Backward, Op::LayerNorm);
        let longest = if two_sums { 8192 } else { usize::MAX };
        let [units, together] = [units, together].map(|units| hardware.max_units.min(units));
        Self { units, good, most, longest, together }
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
    let Case { op, pass, columns, size, hardware } = case;
    let most = (limits.together / lanes).max(1);
    match pass {
        // So that 32 cubes do not limit a multiprocessor.
        Pass::Forward if lanes <= hardware.plane => most,
        // Which leaves a unit 64 registers: 2,048×16,384 bf16 takes 54.0 µs on an H200, 63.5 alone.
        Pass::Forward if op == Op::LayerNorm && lanes == 512 && size <= 2 => {
            (hardware.max_units / lanes).max(1)
        }
        Pass::Forward => 1,
        Pass::Backward if op == Op::Softmax => most.min(256 / lanes.min(256)),
        // As many as make partial sums for `groups` few, with room for a sum of each to meet in
        // shared memory.
        Pass::Backward => {
            let few = (4096 / columns).clamp(1, 16);
            let room = shared_room(hardware).min(65_536) / (lanes * elements * size.max(4));
            1 << few.min(most).min(room).max(1).ilog2()
        }
    }
}

/// Bytes of shared memory beside those that sums over a row meet in.
fn shared_room(hardware: Hardware) -> usize {
    hardware.shared.saturating_sub(4096)
}

/// Whole chunks of `chunk` vectors that shared memory has room for, of the one row or the two that a pass
/// reads twice.
pub(super) fn kept(case: Case, vectors: usize, width: usize, chunk: usize) -> usize {
    // H200, µs, 1,024×65,536: RMSNorm forward f32 161, 198 without; softmax backward bf16 130 and 159.
    let rows = match (case.op, case.pass) {
        (Op::RmsNorm, Pass::Forward) => 1,
        (Op::Softmax, Pass::Backward) => 2,
        // No gain, or a loss where registers run out: LayerNorm forward f32 215 and 212, softmax 201
        // and 185.
        _ => return 0,
    };
    let room = shared_room(case.hardware) / (rows * width * case.size * chunk);
    room.min(vectors.div_ceil(chunk)) * chunk
}
