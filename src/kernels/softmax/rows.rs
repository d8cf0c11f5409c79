//! Along the last dimension.

mod backward;
mod forward;

use super::{Backward, Extent, Forward, exponentials::Form};
use crate::kernels::{
    plan::{Blueprint, Op, Pass, address, cubes},
    row::LengthLaunch,
};
use cubecl::{CubeCount, CubeDim, client::Client, prelude::InputScalar};

/// How kernels of rows are launched.
pub(super) struct Launch {
    pub length: LengthLaunch,
    pub count: CubeCount,
    pub dim: CubeDim,
}

impl Launch {
    pub(super) fn of(blueprint: Blueprint, extent: Extent, client: &Client) -> Self {
        let Extent { outer, length, width, hardware, .. } = extent;
        Self {
            length: LengthLaunch::of(length, width),
            count: cubes(blueprint.cubes(outer, hardware), 1, client),
            dim: blueprint.cube_dim(),
        }
    }
}

pub(super) fn blueprint(pass: Pass, extent: Extent, log: bool, size: usize) -> Blueprint {
    let Extent { length, width, hardware, .. } = extent;
    let op = if log { Op::LogSoftmax } else { Op::Softmax };
    Blueprint::for_lengths(op, pass, length, width, size, hardware)
}

pub(super) fn forward(call: Forward, client: &Client) {
    let Forward { extent, types, log, x, y } = call;
    let blueprint = blueprint(Pass::Forward, extent, log, types.x.size());
    log::trace!("Softmax: {}×{}, {types:?}, {blueprint:?}", extent.outer, extent.length);
    let Launch { length, count, dim } = Launch::of(blueprint, extent, client);
    let address_type = address(y.rows.len(extent.outer).max(x.matrix.len));
    let (x, x_rows) = x.matrix.args(extent.width);
    let (y, y_rows) = y.rows.args(extent.outer, extent.width);
    // SAFETY: lengths are what the handles span; rows and columns past the end are not touched.
    // Where `y` is `x`, a unit writes what only it has use for, and has read; what others read
    // of that they discard.
    unsafe {
        forward::softmax_kernel::launch_unchecked(
            client,
            count,
            dim,
            address_type,
            extent.width,
            x,
            y,
            x_rows,
            y_rows,
            extent.outer,
            length,
            Form::new(log, types),
            blueprint,
            types.x,
            types.accumulator,
        );
    }
}

/// The gradient, times `scale` if there is one.
pub(super) fn backward(call: Backward, scale: Option<f64>, client: &Client) {
    let Backward { extent, types, log, dy, y, dx } = call;
    let blueprint = blueprint(Pass::Backward, extent, log, types.x.size());
    log::trace!("Softmax backward: {}×{}, {types:?}, {blueprint:?}", extent.outer, extent.length);
    let Launch { length, count, dim } = Launch::of(blueprint, extent, client);
    let address_type = address(dx.rows.len(extent.outer).max(dy.matrix.len).max(y.matrix.len));
    let (dy, dy_rows) = dy.matrix.args(extent.width);
    let (y, y_rows) = y.matrix.args(extent.width);
    let (dx, dx_rows) = dx.rows.args(extent.outer, extent.width);
    // SAFETY: as for the forward pass.
    unsafe {
        backward::softmax_backward_kernel::launch_unchecked(
            client,
            count,
            dim,
            address_type,
            extent.width,
            dy,
            y,
            dx,
            dy_rows,
            y_rows,
            dx_rows,
            extent.outer,
            length,
            scale.map(|scale| InputScalar::new(scale, types.accumulator)).into(),
            Form::new(log, types),
            blueprint,
            types.x,
            types.accumulator,
        );
    }
}
