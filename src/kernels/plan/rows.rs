//! Rows whose elements are next to one another.

use super::{Hardware, Pass, vector_width};

/// How the units of a cube share rows. Compiled in: each distinct value is another kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Blueprint {
    /// Units that work on a row together: its team.
    pub lanes: usize,
    /// Teams in a cube.
    pub teams: usize,
    /// Units in a plane, or 1 where sums go through shared memory.
    pub plane: usize,
    /// Vectors of a row, or of a chunk of it, that each unit holds in registers.
    pub held: usize,
    /// Whether a row is read in chunks, once for each pass over it, as it does not fit.
    pub chunked: bool,
    /// Whether the team's lanes and held vectors cover a row, or its chunks, with none left over.
    pub exact: bool,
    /// Whether the next row is loaded before this one is summed.
    pub prefetch: bool,
}

/// Rows of up to so many elements share kernels where lengths change.
const LENGTHS: usize = 4096;

/// [`vector_width`] where lengths change: with planes, where there are kernels for many lengths, the
/// widest vector or single elements.
pub(crate) fn vector_width_for_lengths(
    columns: usize,
    widths: impl Iterator<Item = usize> + Clone,
    hardware: Hardware,
) -> usize {
    let widest = widths.clone().max().unwrap_or(1);
    let few = hardware.plane > 1 && columns <= LENGTHS;
    vector_width(columns, widths.filter(|width| !few || *width == widest))
}

/// Units that share a row at most, and elements that a unit holds of it: where there is a choice,
/// and at most, before registers run out.
fn limits(pass: Pass, size: usize, hardware: Hardware) -> (usize, usize, usize) {
    let units = |most: usize| most.min(hardware.max_units);
    match (pass, size) {
        (Pass::Forward, 0..=4) => (units(1024), 32, 32),
        (Pass::Forward, _) => (units(512), 16, 16),
        // H200, 16 bits: fastest with one vector a unit, as conversions need threads. Of 512 units;
        // with 1,024 of half the registers, 4,096×8,192 takes 65 µs in place of 60.
        (Pass::Backward, 0..=2) => (units(512), 8, 32),
        (Pass::Backward, 4) => (units(512), 32, 32),
        // Well within the registers: with more, a 16-bit gamma beside f64 gave NaN on an H200 (CubeCL
        // 0.11.3). The cause was not found; spilled registers are suspected.
        (Pass::Backward, _) => (units(256), 8, 8),
    }
}

/// Whether a cube's registers hold the next row's input and gradient as well: a unit's `elements`
/// of a sum in 32 bits, and of gamma, two rows and the next two in their type.
///
/// Loading ahead gains 5 to 10% on an H200; without the registers for it, f32 of 16,384 columns
/// took four times as long.
fn spares(lanes: usize, elements: usize, size: usize) -> bool {
    const CUBE: usize = 65_536;
    const OTHERS: usize = 32;
    elements + 5 * elements * size / 4 + OTHERS <= CUBE / lanes
}

impl Blueprint {
    /// Units that meet in shared memory: one of each plane, or all where there are no planes.
    pub(crate) fn sharers(&self) -> usize {
        if self.lanes == self.plane { 0 } else { self.lanes / self.plane }
    }

    /// The blueprint for rows of `vectors` vectors of `width` elements of `size` bytes.
    pub(crate) fn new(
        pass: Pass,
        vectors: usize,
        width: usize,
        size: usize,
        hardware: Hardware,
    ) -> Self {
        if hardware.cpu || !hardware.shared {
            return Self::unit_per_row(vectors, hardware);
        }
        if hardware.plane == 1 {
            return Self::without_planes(pass, vectors, hardware);
        }
        let (most_units, good, most) = limits(pass, size, hardware);
        let (good, most) = ((good / width).max(1), (most / width).max(1));
        let plane = hardware.plane;
        let most_units = (most_units / plane).max(1) * plane;
        let lanes_for =
            |held: usize| vectors.div_ceil(held).next_multiple_of(plane).clamp(plane, most_units);
        // The most vectors that leave no unit idle; else as many as are good, or as have to be.
        let fits = |held: &usize| lanes_for(*held) * held == vectors;
        let held = (1..=good).rev().find(fits).unwrap_or(good);
        let held = held.max(vectors.div_ceil(most_units)).min(most);
        let lanes = lanes_for(held);
        let held = held.min(vectors.div_ceil(lanes));
        let chunked = held * lanes < vectors;
        Self {
            lanes,
            // A plane a row: eight rows a cube, so that 32 cubes do not limit a multiprocessor.
            teams: if lanes == plane {
                (256.min(hardware.max_units) / lanes).clamp(1, 8)
            } else {
                1
            },
            plane,
            held,
            chunked,
            exact: vectors.is_multiple_of(held * lanes),
            prefetch: pass == Pass::Backward && !chunked && spares(lanes, held * width, size),
        }
    }

    /// The blueprint where lengths change from call to call, as those of softmax do in generation and
    /// in bucketed batches: few kernels for all up to 4,096 (see [`vector_width_for_lengths`]).
    pub(crate) fn for_lengths(
        pass: Pass,
        vectors: usize,
        width: usize,
        size: usize,
        hardware: Hardware,
    ) -> Self {
        if hardware.plane == 1 || vectors * width > LENGTHS {
            return Self::new(pass, vectors, width, size, hardware);
        }
        let bucket = if width == 1 {
            [32, 256, 1024, 2048, LENGTHS].into_iter().find(|bucket| *bucket >= vectors)
        } else {
            Some(vectors.next_power_of_two())
        };
        let bucket = bucket.unwrap_or(LENGTHS).max(hardware.plane);
        Self { exact: false, prefetch: false, ..Self::new(pass, bucket, width, size, hardware) }
    }

    /// Sums are trees in shared memory. Few kernels and small ones: where there are no planes there
    /// is a browser or a software rasterizer, which compiles an unrolled kernel for seconds.
    fn without_planes(pass: Pass, vectors: usize, hardware: Hardware) -> Self {
        let (held, units) = (4, 1 << hardware.max_units.ilog2());
        let chunked = vectors > 32.min(units) * held;
        Self {
            lanes: if chunked { 256.min(units) } else { 32.min(units) },
            teams: 1,
            plane: 1,
            held,
            chunked,
            exact: false,
            prefetch: pass == Pass::Backward && !chunked,
        }
    }

    /// A unit of a CPU is a thread: it takes rows of its own, without barriers, and reads them
    /// again from its cache. Two kernels for all lengths.
    fn unit_per_row(vectors: usize, hardware: Hardware) -> Self {
        let held = 8;
        Self {
            lanes: 1,
            teams: hardware.max_units.min(64),
            plane: 1,
            held,
            chunked: true,
            exact: vectors.is_multiple_of(held),
            prefetch: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{AMD, CPU, H200, LLVMPIPE, SPIRV},
        *,
    };
    use std::collections::BTreeSet;

    fn blueprints() -> impl Iterator<Item = (usize, usize, Hardware, Blueprint)> {
        let lengths = (1..300).chain([512, 768, 781, 1023, 1024, 4096, 8192, 65_537, 1_000_000]);
        lengths.flat_map(|vectors| {
            [1, 2, 4, 8, 16].into_iter().flat_map(move |width| {
                [H200, AMD, LLVMPIPE, SPIRV, CPU].into_iter().flat_map(move |hardware| {
                    [Pass::Forward, Pass::Backward].into_iter().flat_map(move |pass| {
                        [2, 4, 8].map(|size| {
                            let blueprint = Blueprint::new(pass, vectors, width, size, hardware);
                            (vectors, width, hardware, blueprint)
                        })
                    })
                })
            })
        })
    }

    #[test]
    fn a_blueprint_covers_the_row_within_the_hardware() {
        for (vectors, width, hardware, blueprint) in blueprints() {
            let Blueprint { lanes, teams, plane, held, chunked, exact, .. } = blueprint;
            assert!(lanes * teams <= hardware.max_units, "{blueprint:?}");
            assert!(lanes.is_multiple_of(plane) && held > 0, "{blueprint:?}");
            assert!(chunked || held * lanes >= vectors, "{vectors} vectors: {blueprint:?}");
            assert!(!exact || vectors.is_multiple_of(held * lanes), "{blueprint:?}");
            let registers = if plane > 1 { 32.max(width) } else { 4 * width };
            assert!(chunked || held * width <= registers, "{width} wide, {blueprint:?}");
            let barriers = lanes > plane;
            assert!(!barriers || teams == 1, "teams apart at a barrier: {blueprint:?}");
            assert!(plane > 1 || lanes.is_power_of_two(), "no tree: {blueprint:?}");
            assert!(!barriers || hardware.shared, "{blueprint:?}");
        }
    }

    #[test]
    fn the_strategies_are_those_measured_best_on_the_h200() {
        let of = |columns: usize, size: usize, pass| {
            let width = 16 / size;
            Blueprint::new(pass, columns / width, width, size, H200)
        };
        // bf16 backward: one vector a unit, the next row loaded ahead.
        let wide = of(4096, 2, Pass::Backward);
        assert_eq!((wide.lanes, wide.held, wide.prefetch, wide.exact), (512, 1, true, true));
        // f32 backward: eight.
        let wide = of(4096, 4, Pass::Backward);
        assert_eq!((wide.lanes, wide.held, wide.prefetch, wide.exact), (128, 8, true, true));
        // Narrow rows: a plane each, eight in a cube.
        let narrow = of(256, 2, Pass::Backward);
        assert_eq!((narrow.lanes, narrow.teams, narrow.held), (32, 8, 1));
        // Rows that fill the registers are not loaded ahead; wider ones are read in chunks.
        let full = of(16_384, 4, Pass::Backward);
        assert!(!full.prefetch && !full.chunked && of(65_536, 4, Pass::Backward).chunked);
    }

    /// A kernel is compiled for each width and blueprint, and again where it writes over its input.
    #[test]
    fn few_kernels_serve_all_lengths() {
        let widths = |hardware: Hardware, size: usize| {
            let bytes = if hardware.cpu { 64 } else { 16 };
            (0..7).map(|power| 1 << power).filter(move |width| width * size <= bytes)
        };
        for hardware in [H200, AMD, LLVMPIPE, SPIRV, CPU] {
            for (pass, size) in [Pass::Forward, Pass::Backward]
                .into_iter()
                .flat_map(|pass| [2, 4, 8].map(|size| (pass, size)))
            {
                let kernels: BTreeSet<_> = (1..=LENGTHS)
                    .map(|length| {
                        let widths = widths(hardware, size);
                        let width = vector_width_for_lengths(length, widths, hardware);
                        let vectors = length / width;
                        let blueprint =
                            Blueprint::for_lengths(pass, vectors, width, size, hardware);
                        assert!(blueprint.chunked || blueprint.lanes * blueprint.held >= vectors);
                        format!("{width} {blueprint:?}")
                    })
                    .collect();
                let count = 2 * kernels.len();
                assert!(count <= 24, "{pass:?} of {size} bytes, {hardware:?}: {count} kernels");
            }
        }
    }
}
