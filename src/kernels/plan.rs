//! Launch plans: pure functions of shape, element type and hardware.
//!
//! What decides the order of a sum across rows, [`groups`], takes shape and type, and how many teams share
//! a cube: that follows from both and from what a cube of the architecture can have, never from how many
//! processors there are.

mod columns;
mod lengths;
mod limits;
mod rows;

pub(crate) use columns::{ColumnBlueprint, ColumnPlan, column_width, groups};
pub(crate) use lengths::vector_width_for_lengths;
pub(crate) use rows::{Blueprint, Ends, Tile};

use cubecl::{CubeCount, client::Client, features::Plane, prelude::AddressType};

/// What a plan needs to know of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hardware {
    /// Units in a plane, or 1 where the runtime has no plane operations.
    pub plane: usize,
    /// The most units in a cube.
    pub max_units: usize,
    /// Processors that cubes are spread over, or 0 where their number is unknown.
    pub processors: usize,
    /// Whether units are threads of a CPU, each best left to a row of its own.
    pub cpu: bool,
    /// Whether a processor stands in for a GPU.
    pub software: bool,
    /// Bytes that the units of a cube can share.
    pub shared: usize,
    /// Whether kernels see memory by address, so that its elements can be taken as vectors or one by one.
    pub by_address: bool,
}

impl Hardware {
    pub(crate) fn of(client: &Client) -> Self {
        let properties = client.properties();
        let hardware = &properties.hardware;
        let fixed = hardware.plane_size_min == hardware.plane_size_max;
        let planes = fixed && properties.features.plane.contains(Plane::Ops);
        // Without plane operations SPIR-V means a software rasterizer. Mesa's has no explicit
        // layout for shared memory, and what CubeCL 0.11.3 emits for that crashes it.
        let shares = planes || client.name() != "wgpu<spirv>";
        Self {
            shared: if shares { hardware.max_shared_memory_size } else { 0 },
            plane: if planes { hardware.plane_size_max as usize } else { 1 },
            max_units: hardware.max_units_per_cube as usize,
            processors: hardware.num_streaming_multiprocessors.unwrap_or(0) as usize,
            cpu: hardware.num_cpu_cores.is_some(),
            software: properties.identity.physical.is_none(),
            by_address: ["cuda", "hip", "cpu"].contains(&client.name()),
        }
    }
}

/// What is computed along rows, as far as plans differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    RmsNorm,
    LayerNorm,
    Softmax,
    LogSoftmax,
    CrossEntropy,
}

impl Op {
    /// Whether a row that is read in chunks is read twice, the next one while it is written.
    pub(crate) fn reads_again(self) -> bool {
        matches!(self, Self::Softmax | Self::LogSoftmax)
    }

    /// Whether it has the exponentials of a row.
    pub(crate) fn is_softmax(self) -> bool {
        matches!(self, Self::Softmax | Self::LogSoftmax | Self::CrossEntropy)
    }
}

/// The direction of a pass; the backward one holds twice the data and a partial sum as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    Forward,
    Backward,
}

/// The vector that rows of `columns` elements of `size` bytes are worked on in, of those that the device
/// loads at once: the same for every view of a shape, so that a slice and its copy give the same bits.
///
/// The widest that divides a row; or where that is short and the last vector of a row can be a part of
/// one, the widest.
pub(crate) fn vector_width(
    columns: usize,
    size: usize,
    widths: impl Iterator<Item = usize> + Clone,
    hardware: Hardware,
) -> usize {
    const SHORT: usize = 8;
    let dividing = dividing_width(columns, widths.clone());
    let by_parts = |dividing| hardware.by_address && dividing * size < SHORT;
    match widths.max() {
        Some(widest) if by_parts(dividing) && columns > widest => widest,
        _ => dividing,
    }
}

/// The widest vector that divides a row.
pub(crate) fn dividing_width(columns: usize, widths: impl Iterator<Item = usize>) -> usize {
    widths.filter(|width| columns.is_multiple_of(*width)).max().unwrap_or(1)
}

/// The index type for `len` elements, with room for what kernels compute past the end before they
/// compare: the next row of a group, the next chunk of a row, the rows of surplus cubes.
pub(crate) fn address(len: usize) -> AddressType {
    AddressType::from_len(len.saturating_add(1 << 23))
}

/// `count` cubes in each of `layers`, as a launch takes them.
pub(crate) fn cubes(count: usize, layers: usize, client: &Client) -> CubeCount {
    let (x, y) = grid(count, client.properties().hardware.max_cube_count.0);
    CubeCount::Static(x, y, layers as u32)
}

/// `count` cubes as a grid within the device's limit, a little more where it has to be.
fn grid(count: usize, limit: u32) -> (u32, u32) {
    let x = count.min(limit as usize);
    (x as u32, count.div_ceil(x.max(1)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const H200: Hardware = Hardware {
        plane: 32,
        max_units: 1024,
        processors: 132,
        cpu: false,
        software: false,
        shared: 232_448,
        by_address: true,
    };
    pub(super) const AMD: Hardware = Hardware { plane: 64, shared: 65_536, ..H200 };
    pub(super) const BROWSER: Hardware =
        Hardware { plane: 1, max_units: 256, shared: 32_768, by_address: false, ..H200 };
    pub(super) const LLVMPIPE: Hardware = Hardware { software: true, ..BROWSER };
    pub(super) const SPIRV: Hardware = Hardware { shared: 0, ..LLVMPIPE };
    pub(super) const CPU: Hardware =
        Hardware { plane: 1, max_units: 2, cpu: true, software: true, shared: 65_536, ..H200 };

    #[test]
    fn vectors_divide_the_row_or_are_wide() {
        let of = |hardware| {
            let widths = [8, 4, 2, 1].into_iter();
            [4096, 100, 6, 4095, 3, 1].map(|n| vector_width(n, 2, widths.clone(), hardware))
        };
        assert_eq!(of(LLVMPIPE), [8, 4, 2, 1, 1, 1]);
        assert_eq!(of(H200), [8, 4, 2, 8, 1, 1]);
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
