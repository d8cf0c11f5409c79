//! Rows whose elements are next to one another.

use super::{
    Hardware, Op, Pass,
    limits::{Case, Limits, kept, spares, teams},
};
use cubecl::CubeDim;

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
    pub ends: Ends,
    /// Rows that are loaded ahead of the one that is summed.
    pub ahead: usize,
    /// Whether parameters are loaded before a row's sums are known.
    pub parameters: bool,
    /// Whether sums over rows are in shared memory rather than in registers.
    pub shares_sums: bool,
    /// Vectors of a row in chunks that stay in shared memory from one pass over it to the next.
    pub kept: usize,
}

/// How rows end. Compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    /// Whether the team's lanes and held vectors cover a row, or its chunks, with none left over.
    pub exact: bool,
    /// Whether a row's last vector has fewer elements than the others.
    pub ragged: bool,
    /// Whether rows end in the last vector that units hold of them.
    pub tight: bool,
}

/// How a cube takes a tile of columns of rows that are too wide for it. Compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tile {
    /// Vectors of columns in a cube, each a unit's.
    pub lanes: usize,
    /// Rows that are loaded at once.
    pub rows: usize,
    pub ends: Ends,
}

impl Tile {
    pub(crate) fn new(blueprint: Blueprint, width: usize) -> Self {
        // Four vectors of 16 bytes from each of two tensors: 64 KiB on their way to 512 units.
        let rows = if width > 8 { 2 } else { 4 };
        // Units past the row's end have its last vector.
        let ends = Ends { exact: true, ..blueprint.ends };
        Self { lanes: blueprint.lanes.min(256), rows, ends }
    }
}

impl Blueprint {
    /// One dimension, as WGSL has planes in no other.
    pub(crate) fn cube_dim(&self) -> CubeDim {
        CubeDim::new_1d((self.lanes * self.teams) as u32)
    }

    /// How rows end, as far as it concerns the vectors that units hold in place `i`: where the last ones
    /// hold the end, the others are loaded and stored unchecked.
    pub(crate) fn ends_of(&self, i: usize) -> Ends {
        if self.ends.tight && i + 1 < self.held {
            Ends { exact: true, ragged: false, tight: true }
        } else {
            self.ends
        }
    }

    /// The blueprint for a chunk of a row whose vectors are all inside, and whole.
    pub(crate) fn whole(&self) -> Self {
        Self { ends: Ends { exact: true, ragged: false, tight: false }, ..*self }
    }

    /// The blueprint of a norm's backward pass, where it reads a third tensor: the gradient of the sum that was
    /// normalised. LayerNorm, 8,192×4,096 on an H200.
    pub(crate) fn of_sum(self, width: usize, size: usize) -> Self {
        if self.plane == 1 || self.chunked {
            return self;
        }
        let elements = self.held * width;
        // f32: 131 µs, 172 with the next row ahead, for which a unit has no registers left.
        let spares = elements + 6 * elements * size / 4 + 32 < 256;
        // bf16: 72.9 µs, 81.7 with one team, of which a processor has room for one only.
        let teams = match self.teams {
            1 if size <= 2 && !self.shares_sums => (512 / self.lanes).max(1),
            teams => teams,
        };
        Self { teams, ahead: if spares { self.ahead } else { 0 }, ..self }
    }

    /// Cubes for a pass over `rows` without sums over them: one for each of its teams' rows; or where rows
    /// are loaded ahead as many as run at once, each with as many rows.
    pub(crate) fn cubes(&self, rows: usize, hardware: Hardware) -> usize {
        let each = rows.div_ceil(self.teams);
        if self.ahead == 0 || hardware.processors == 0 {
            return each;
        }
        // 1,024 units a processor, or a little more: 4,096×5,120 bf16, LayerNorm, takes 24.3 µs with
        // 1,280, 27.5 with 960.
        let cubes = (1024 / (self.lanes * self.teams)).max(1).next_power_of_two();
        each.div_ceil(each.div_ceil(hardware.processors * cubes))
    }

    /// Units that meet in shared memory: one of each plane, or all where there are no planes.
    pub(crate) fn sharers(&self) -> usize {
        if self.lanes <= self.plane { 0 } else { self.lanes / self.plane }
    }

    /// The blueprint for rows of `columns` elements of `size` bytes in vectors of `width`.
    pub(crate) fn new(
        op: Op,
        pass: Pass,
        columns: usize,
        width: usize,
        size: usize,
        hardware: Hardware,
    ) -> Self {
        let vectors = columns.div_ceil(width);
        let ragged = !columns.is_multiple_of(width);
        if hardware.cpu || hardware.shared == 0 {
            return Self::unit_per_row(vectors, ragged, hardware);
        }
        if hardware.plane == 1 {
            return Self::without_planes(op, pass, vectors, ragged, hardware);
        }
        let case = Case { op, pass, columns, size, ragged, hardware };
        let limits = Limits::new(case);
        let [good, most] = [limits.good, limits.most].map(|elements| (elements / width).max(1));
        let plane = hardware.plane;
        let most_units = (limits.units / plane).max(1) * plane;
        // Planes, or a part of one that still reads 128 bytes next to one another; half of one for
        // LayerNorm's backward pass: 65,536×256 bf16 takes 30.3 µs on an H200, 34.3 in whole ones.
        let fewest = match (pass, op) {
            (Pass::Forward, _) => (128 / (width * size)).clamp(1, plane),
            (Pass::Backward, Op::LayerNorm) if size <= 2 => plane / 2,
            (Pass::Backward, _) => plane,
        };
        let lanes_for = |held: usize| match vectors.div_ceil(held) {
            units if units <= plane => units.next_power_of_two().max(fewest),
            units => units.next_multiple_of(plane).min(most_units),
        };
        // The most vectors that leave no unit idle; else as many as are good, or as have to be.
        let fits = |held: &usize| lanes_for(*held) * held == vectors;
        let held = (1..=good).rev().find(fits).unwrap_or(good);
        let held = held.max(vectors.div_ceil(most_units)).min(most);
        let lanes = lanes_for(held);
        let held = held.min(vectors.div_ceil(lanes));
        let chunked = held * lanes < vectors || columns > limits.longest;
        if chunked {
            let (lanes, elements) = limits.wide;
            let held = (elements / width).clamp(1, 8);
            return Self {
                lanes,
                teams: 1,
                plane,
                held,
                chunked,
                ends: Ends { exact: vectors.is_multiple_of(held * lanes), ragged, tight: false },
                ahead: usize::from(op.reads_again() && pass == Pass::Forward),
                parameters: false,
                shares_sums: false,
                kept: kept(case, &limits, vectors, width, held * lanes),
            };
        }
        let fills = pass == Pass::Backward && !spares(lanes, held * width, size);
        Self {
            lanes,
            teams: teams(case, lanes, held * width, &limits),
            plane,
            held,
            chunked,
            ends: Ends { exact: vectors == held * lanes, ragged, tight: true },
            ahead: usize::from(limits.ahead.contains(&columns) && !fills),
            parameters: columns <= limits.parameters,
            shares_sums: columns >= limits.shared_sums,
            kept: 0,
        }
    }

    /// Sums are trees in shared memory. Few kernels and small ones: where there are no planes there
    /// is a browser or a software rasterizer, which compiles an unrolled kernel for seconds.
    fn without_planes(
        op: Op,
        pass: Pass,
        vectors: usize,
        ragged: bool,
        hardware: Hardware,
    ) -> Self {
        let (held, units) = (4, 1 << hardware.max_units.ilog2());
        // llvmpipe runs eight units as one, and others in turn from barrier to barrier: 512×768 f32,
        // RMSNorm backward, takes 3.6 to 5.3 ms, with 32 units 9.4.
        // Where each of them had thousands of vectors to add up, errors would grow.
        let (few, many) = match hardware.software {
            true if vectors <= 2048 => (8, 8),
            true => (8, 256),
            false => (32, 256),
        };
        let chunked = vectors > few.min(units) * held;
        Self {
            lanes: if chunked { many } else { few }.min(units),
            teams: 1,
            plane: 1,
            held,
            chunked,
            ends: Ends { exact: false, ragged, tight: false },
            ahead: usize::from(pass == Pass::Backward && !op.is_softmax() && !chunked),
            parameters: false,
            shares_sums: false,
            kept: 0,
        }
    }

    /// A unit of a CPU is a thread: it takes rows of its own, without barriers, and reads them
    /// again from its cache. Two kernels for all lengths.
    fn unit_per_row(vectors: usize, ragged: bool, hardware: Hardware) -> Self {
        // 1,024×1,024 f32, RMSNorm backward, two cores: 1.2 ms, 1.3 with 4, 1.6 with 8, which take four
        // times as long to compile.
        let held = 2;
        Self {
            lanes: 1,
            teams: hardware.max_units.min(64),
            plane: 1,
            held,
            chunked: true,
            ends: Ends { exact: vectors.is_multiple_of(held), ragged, tight: false },
            ahead: 0,
            parameters: false,
            shares_sums: false,
            kept: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{AMD, BROWSER, CPU, H200, LLVMPIPE, SPIRV},
        *,
    };

    const OPS: [Op; 5] =
        [Op::RmsNorm, Op::LayerNorm, Op::Softmax, Op::LogSoftmax, Op::CrossEntropy];

    fn blueprints() -> impl Iterator<Item = (usize, usize, Hardware, Blueprint)> {
        OPS.into_iter().flat_map(|op| {
            [Pass::Forward, Pass::Backward]
                .into_iter()
                .flat_map(move |pass| blueprints_of(op, pass))
        })
    }

    fn blueprints_of(
        op: Op,
        pass: Pass,
    ) -> impl Iterator<Item = (usize, usize, Hardware, Blueprint)> {
        let lengths = (1..300).chain([512, 768, 781, 1023, 1024, 4096, 8192, 65_537, 1_000_000]);
        lengths.flat_map(move |vectors| {
            [1, 2, 4, 8, 16].into_iter().flat_map(move |width| {
                [H200, AMD, BROWSER, LLVMPIPE, SPIRV, CPU].into_iter().flat_map(move |hardware| {
                    [2, 4, 8].map(|size| {
                        let blueprint =
                            Blueprint::new(op, pass, vectors * width, width, size, hardware);
                        (vectors, width, hardware, blueprint)
                    })
                })
            })
        })
    }

    #[test]
    fn a_blueprint_covers_the_row_within_the_hardware() {
        for (vectors, width, hardware, blueprint) in blueprints() {
            let Blueprint { lanes, teams, plane, held, chunked, ends, .. } = blueprint;
            assert!(lanes * teams <= hardware.max_units, "{blueprint:?}");
            let part = plane.is_multiple_of(lanes) && lanes.is_power_of_two();
            assert!(lanes.is_multiple_of(plane) || part, "{blueprint:?}");
            assert!(held > 0 && teams > 0, "{blueprint:?}");
            assert!(chunked || held * lanes >= vectors, "{vectors} vectors: {blueprint:?}");
            assert!(!ends.tight || lanes * (held - 1) < vectors, "{blueprint:?}");
            assert!(!ends.exact || vectors.is_multiple_of(held * lanes), "{blueprint:?}");
            let registers = if plane > 1 { 32.max(width) } else { 4 * width };
            assert!(chunked || held * width <= registers, "{width} wide, {blueprint:?}");
            let barriers = lanes > plane;
            assert!(plane > 1 || lanes.is_power_of_two(), "no tree: {blueprint:?}");
            assert!(!barriers || hardware.shared > 0, "{blueprint:?}");
            // A unit meets its own sums only.
            assert!(!blueprint.shares_sums || teams == 1, "{blueprint:?}");
        }
    }

    /// Softmax's backward pass takes a row a team.
    #[test]
    fn every_row_has_a_team_where_teams_take_one() {
        const ROWS: usize = 1_000_000;
        let softmax = [Op::Softmax, Op::LogSoftmax, Op::CrossEntropy]
            .map(|op| blueprints_of(op, Pass::Backward));
        let softmax = softmax.into_iter().flatten();
        for (_, _, hardware, blueprint) in softmax.chain(blueprints().filter(|b| b.3.ahead == 0)) {
            let teams = blueprint.cubes(ROWS, hardware) * blueprint.teams;
            assert!(teams >= ROWS, "{blueprint:?}");
        }
    }

    /// The order of every sum is the same on devices of one architecture.
    #[test]
    fn the_number_of_processors_changes_no_order() {
        let works =
            OPS.into_iter().flat_map(|op| [Pass::Forward, Pass::Backward].map(|pass| (op, pass)));
        for (op, pass) in works {
            for columns in (1..300).chain([768, 1023, 4096, 5120, 8193, 16_384, 65_536]) {
                for (width, size) in [(8, 2), (4, 4), (2, 8), (1, 4)] {
                    let of = |hardware| Blueprint::new(op, pass, columns, width, size, hardware);
                    for processors in [0, 1, 56, 1000] {
                        let another = Hardware { processors, ..H200 };
                        assert_eq!(of(H200), of(another), "{op:?} {pass:?}");
                    }
                    // Cores have more or fewer rows side by side, each by itself.
                    for max_units in [1, 16, 64, 128] {
                        let another = of(Hardware { max_units, ..CPU });
                        assert_eq!(of(CPU), Blueprint { teams: of(CPU).teams, ..another });
                        assert_eq!(another.lanes, 1);
                    }
                }
            }
        }
    }

    #[test]
    fn the_strategies_are_those_measured_best_on_the_h200() {
        let of = |op, pass, columns: usize, size: usize| {
            let width = 16 / size;
            let found = Blueprint::new(op, pass, columns, width, size, H200);
            assert!(found.ends.exact, "{found:?}");
            (found.lanes, found.held, found.teams, found.ahead)
        };
        use Op::{LayerNorm, RmsNorm, Softmax};
        // Eight units of a plane share a row of 256 elements.
        assert_eq!(of(RmsNorm, Pass::Forward, 256, 2), (8, 4, 32, 0));
        assert_eq!(of(RmsNorm, Pass::Forward, 4096, 2), (128, 4, 1, 0));
        assert_eq!(of(RmsNorm, Pass::Forward, 4096, 4), (256, 4, 1, 0));
        assert_eq!(of(Softmax, Pass::Forward, 4096, 2), (128, 4, 1, 0));
        // The next row is loaded ahead where few rows fit a processor.
        assert_eq!(of(LayerNorm, Pass::Forward, 4096, 2), (128, 4, 1, 0));
        assert_eq!(of(LayerNorm, Pass::Forward, 5120, 2), (160, 4, 1, 1));
        assert_eq!(of(LayerNorm, Pass::Forward, 16_384, 4), (512, 8, 1, 1));
        assert_eq!(of(RmsNorm, Pass::Forward, 16_384, 4), (512, 8, 1, 0));
        // Teams of narrow rows add up their sums.
        assert_eq!(of(RmsNorm, Pass::Backward, 256, 2), (32, 1, 16, 1));
        assert_eq!(of(LayerNorm, Pass::Backward, 256, 2), (16, 2, 32, 1));
        assert_eq!(of(RmsNorm, Pass::Backward, 768, 2), (96, 1, 5, 1));
        assert_eq!(of(LayerNorm, Pass::Backward, 768, 2), (96, 1, 4, 1));
        assert_eq!(of(RmsNorm, Pass::Backward, 4096, 2), (512, 1, 1, 1));
        assert_eq!(of(LayerNorm, Pass::Backward, 4096, 2), (256, 2, 1, 1));
        assert_eq!(of(RmsNorm, Pass::Backward, 5120, 2), (320, 2, 2, 1));
        assert_eq!(of(RmsNorm, Pass::Backward, 4096, 4), (256, 4, 1, 1));
        assert_eq!(of(LayerNorm, Pass::Backward, 4096, 4), (128, 8, 2, 1));
        assert_eq!(of(LayerNorm, Pass::Backward, 8192, 4), (512, 4, 1, 1));
        assert_eq!(of(Softmax, Pass::Backward, 4096, 2), (256, 2, 1, 0));
        // Where they fill the registers they are not loaded ahead.
        assert_eq!(of(RmsNorm, Pass::Backward, 16_384, 4), (512, 8, 1, 0));
    }

    #[test]
    fn a_sums_gradient_takes_room_for_itself() {
        for op in [Op::RmsNorm, Op::LayerNorm] {
            for (_, width, hardware, blueprint) in blueprints_of(op, Pass::Backward) {
                for size in [2, 4, 8] {
                    let of_sum = blueprint.of_sum(width, size);
                    assert!(of_sum.lanes * of_sum.teams <= hardware.max_units, "{of_sum:?}");
                    assert!(!of_sum.shares_sums || of_sum.teams == 1, "{of_sum:?}");
                    // The order of sums over a row is that of the norm of one input.
                    let order = |of: Blueprint| (of.lanes, of.held, of.chunked, of.ends);
                    assert_eq!(order(of_sum), order(blueprint));
                }
            }
        }
        let of = |columns: usize, size: usize| {
            let width = 16 / size;
            let plain = Blueprint::new(Op::LayerNorm, Pass::Backward, columns, width, size, H200);
            let of_sum = plain.of_sum(width, size);
            (of_sum.teams, of_sum.ahead)
        };
        assert_eq!(of(4096, 2), (2, 1));
        assert_eq!(of(4096, 4), (2, 0));
        assert_eq!(of(8192, 4), (1, 1));
    }

    #[test]
    fn rows_are_chunked_where_registers_run_out() {
        let chunked = |op, pass, columns: usize, size: usize| {
            let width = 16 / size;
            Blueprint::new(op, pass, columns, width, size, H200).chunked
        };
        for size in [2, 4] {
            assert!(!chunked(Op::RmsNorm, Pass::Backward, 8192, size));
            assert!(chunked(Op::RmsNorm, Pass::Backward, 32_768, size));
            assert!(!chunked(Op::LayerNorm, Pass::Backward, 8192, size));
            assert!(chunked(Op::LayerNorm, Pass::Backward, 32_768, size));
            assert!(!chunked(Op::LayerNorm, Pass::Forward, 32_768, size));
            assert!(chunked(Op::LayerNorm, Pass::Forward, 65_536, size));
        }
        for (op, size) in [Op::RmsNorm, Op::LayerNorm].into_iter().flat_map(|op| [(op, 2), (op, 4)])
        {
            assert!(!chunked(op, Pass::Backward, 16_384, size));
        }
    }

    #[test]
    fn what_is_kept_fits_shared_memory() {
        for (_, width, hardware, blueprint) in blueprints() {
            let chunk = blueprint.held * blueprint.lanes;
            assert!(blueprint.kept.is_multiple_of(chunk), "{blueprint:?}");
            assert!(blueprint.kept * width * 2 <= hardware.shared, "{blueprint:?}");
        }
        let kept =
            |size| Blueprint::new(Op::RmsNorm, Pass::Forward, 65_536, 16 / size, size, H200).kept;
        assert_eq!(kept(2), 6144, "three quarters of each of two rows");
        assert_eq!(kept(4), 8192, "of one row all that is not held");
    }
}
