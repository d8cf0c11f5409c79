//! Launch plans: pure functions of shape, element type and hardware.
//!
//! What decides the order of a sum across rows, [`groups`], takes shape and type alone.

use cubecl::{client::Client, features::Plane, prelude::AddressType};

/// What a plan needs to know of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hardware {
    /// Units in a plane, or 1 where the runtime has no plane operations.
    pub plane: usize,
    /// The most units in a cube.
    pub max_units: usize,
    /// Whether units are threads of a CPU, each best left to a row of its own.
    pub cpu: bool,
    /// Whether the units of a cube can share memory.
    pub shared: bool,
}

impl Hardware {
    pub(crate) fn of(client: &Client) -> Self {
        let properties = client.properties();
        let hardware = &properties.hardware;
        let fixed = hardware.plane_size_min == hardware.plane_size_max;
        let planes = fixed && properties.features.plane.contains(Plane::Ops);
        // Without plane operations SPIR-V means a software rasterizer. Mesa's has no explicit
        // layout for shared memory, and what CubeCL 0.11.3 emits for that crashes it.
        let shared = planes || client.name() != "wgpu<spirv>";
        Self {
            shared,
            plane: if planes { hardware.plane_size_max as usize } else { 1 },
            max_units: hardware.max_units_per_cube as usize,
            cpu: hardware.num_cpu_cores.is_some(),
        }
    }
}

/// The direction of a pass; the backward one holds twice the data and a partial sum as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    Forward,
    Backward,
}

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

/// The widest vector that divides a row and that the device loads at once: the same for every
/// view of a shape, so that a slice and its copy give the same bits.
pub(crate) fn vector_width(columns: usize, widths: impl Iterator<Item = usize>) -> usize {
    widths.filter(|width| columns.is_multiple_of(*width)).max().unwrap_or(1)
}

/// Rows of up to so many elements share kernels where lengths change.
const LENGTHS: usize = 4096;

/// [`vector_width`] where lengths change: with planes, where there are kernels for many lengths, the
/// widest vector or single elements.
pub(crate) fn vector_width_for_lengths(
    columns: usize,
    widths: impl Iterator<Item = usize>,
    hardware: Hardware,
) -> usize {
    let widths: Vec<_> = widths.collect();
    let widest = widths.iter().copied().max().unwrap_or(1);
    let few = hardware.plane > 1 && columns <= LENGTHS;
    vector_width(columns, widths.into_iter().filter(|width| !few || *width == widest))
}

/// Units that share a row at most, and elements that a unit holds of it: where there is a choice,
/// and at most, before registers run out.
fn limits(pass: Pass, size: usize, hardware: Hardware) -> (usize, usize, usize) {
    let units = |most: usize| most.min(hardware.max_units);
    match (pass, size) {
        (Pass::Forward, _) => (units(1024), 32, 32),
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
            teams: if lanes == plane { (256 / lanes).min(8) } else { 1 },
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
        let held = 4;
        let chunked = vectors > 32 * held;
        Self {
            lanes: if chunked { 256.min(1 << hardware.max_units.ilog2()) } else { 32 },
            teams: 1,
            plane: 1,
            held,
            chunked,
            exact: false,
            prefetch: pass == Pass::Backward && !chunked,
        }
    }

    /// A unit of a CPU is a thread: it takes rows of its own, without barriers, and reads them
    /// again from its cache. One kernel for all lengths.
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
        if hardware.cpu || !hardware.shared {
            return Self { lanes: hardware.max_units.min(64), splits: 1, held: 4, chunked: true };
        }
        // 128 bytes of registers for each tensor that is read, in the widest vectors.
        let (units, most) = match (hardware.plane, pass) {
            // Few and small kernels where there are no planes, as for rows.
            (1, _) => (256, 4),
            (_, Pass::Forward) if size == 4 => (1024, 8),
            _ => (1024, 4),
        };
        let units = units.min(hardware.max_units);
        let splits = length.div_ceil(most).next_power_of_two().min(1 << (units / 8).ilog2());
        let held = length.div_ceil(splits).next_power_of_two().min(most);
        // 128 bytes next to one another, or all that there are; more where columns are short.
        let mut lanes = (128 / (width * size)).clamp(1, inner).min(units / splits);
        while lanes * splits * 2 <= units.min(256) {
            lanes *= 2;
        }
        Self { lanes, splits, held, chunked: held * splits < length }
    }
}

/// Into how many groups rows are cut for a sum over them. Group `g` of `G` has the rows
/// `g, g + G, g + 2G, …`, added in that order.
///
/// Takes shape and type alone, so that the sum is the same on devices of any size. 132 teams of
/// 8,192 columns fill the H200 on which the number was measured. Partials take at most a
/// sixteenth of the input's memory where there are 1,024 rows or more, a quarter of its elements
/// below.
pub(crate) fn groups(rows: usize, columns: usize, size: usize) -> usize {
    let filling = 132 * (8192 / columns).max(1);
    let bounded = if rows >= 1024 { rows * size / (16 * size.max(4)) } else { rows.div_ceil(4) };
    filling.min(bounded).max(1)
}

/// How many units share the sum of a column of partials, and how many columns a cube takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ColumnPlan {
    /// Vectors of columns in a cube.
    pub columns: usize,
    /// Units for each: unit `s` of `S` adds the partials `s, s + S, …`; then the units' sums are
    /// added in order.
    pub splits: usize,
}

impl ColumnPlan {
    pub(crate) fn new(hardware: Hardware) -> Self {
        if hardware.cpu || !hardware.shared {
            Self { columns: hardware.max_units.min(64), splits: 1 }
        } else {
            // 128-byte reads by eight units, 32 deep: 2 to 3 µs on an H200.
            Self { columns: 8, splits: (hardware.max_units / 8).clamp(1, 32) }
        }
    }
}

/// The index type for `len` elements, with room for what kernels compute past the end before they
/// compare: the next row of a group, the next chunk of a row, the rows of surplus cubes.
pub(crate) fn address(len: usize) -> AddressType {
    AddressType::from_len(len.saturating_add(1 << 23))
}

/// `count` cubes as a grid within the device's limit, a little more where it has to be.
pub(crate) fn grid(count: usize, limit: u32) -> (u32, u32) {
    let x = count.min(limit as usize);
    (x as u32, count.div_ceil(x.max(1)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Hardware = Hardware { plane: 32, max_units: 1024, cpu: false, shared: true };
    const AMD: Hardware = Hardware { plane: 64, ..H200 };
    const LLVMPIPE: Hardware = Hardware { plane: 1, max_units: 256, ..H200 };
    const SPIRV: Hardware = Hardware { shared: false, ..LLVMPIPE };
    const CPU: Hardware = Hardware { plane: 1, max_units: 2, cpu: true, shared: true };

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

    #[test]
    fn vectors_divide_the_row() {
        let widths = || [8, 4, 2, 1].into_iter();
        let found = [4096, 100, 6, 4095, 1].map(|columns| vector_width(columns, widths()));
        assert_eq!(found, [8, 4, 2, 1, 1]);
    }

    #[test]
    fn partials_take_a_sixteenth_of_the_input_at_most() {
        for rows in (1..3000).chain([4096, 32_768, 65_536, 1_000_000]) {
            for columns in [1, 31, 256, 1024, 4095, 8192, 16_384, 70_000] {
                for size in [2, 4, 8] {
                    let groups = groups(rows, columns, size);
                    assert!((1..=rows).contains(&groups));
                    assert!(rows == 1 || groups < rows, "partials the size of the input");
                    let partials = groups * columns * size.max(4);
                    let bound = rows * columns * size / 16;
                    assert!(rows < 1024 || partials <= bound, "{rows}x{columns} of {size} bytes");
                }
            }
        }
    }

    #[test]
    fn indices_have_room_past_the_end() {
        assert_eq!(address(1 << 31), AddressType::U32);
        assert_eq!(address(u32::MAX as usize - 132 * 8192), AddressType::U64);
    }

    #[test]
    fn a_grid_has_all_cubes_within_the_limit() {
        for count in [1, 65_535, 65_536, 70_000, 10_000_000] {
            let (x, y) = grid(count, 65_535);
            assert!(x <= 65_535 && y <= 65_535 && x as usize * y as usize >= count);
        }
    }
}
