//! Along the last dimension.

mod backward;
mod forward;

use super::{Backward, Extent, Forward, exponentials::Form};
use crate::kernels::{
    plan::{Blueprint, Op, Pass, address, cubes},
    row::LengthLaunch,
};
use cubecl::{CubeCount, CubeDim, client::Client};

struct Launch {
    length: LengthLaunch,
    blueprint: Blueprint,
    count: CubeCount,
    dim: CubeDim,
}

fn launch(pass: Pass, extent: Extent, size: usize, client: &Client) -> Launch {
    let Extent { outer, length, width, hardware, .. } = extent;
    let blueprint = Blueprint::for_lengths(Op::Softmax, pass, length, width, size, hardware);
    log::trace!("Softmax {pass:?}: {outer}×{length} of {size} bytes, {blueprint:?}");
    Launch {
        length: LengthLaunch::of(length, width),
        blueprint,
        count: cubes(blueprint.cubes(outer, hardware), 1, client),
        dim: blueprint.cube_dim(),
    }
}

pub(super) fn forward(call: Forward, client: &Client) {
    let Forward { extent, types, log, x, y } = call;
    let Launch { length, blueprint, count, dim } =
        launch(Pass::Forward, extent, types.x.size(), client);
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

pub(super) fn backward(call: Backward, client: &Client) {
    let Backward { extent, types, log, dy, y, dx } = call;
    let Launch { length, blueprint, count, dim } =
        launch(Pass::Backward, extent, types.x.size(), client);
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
            Form::new(log, types),
            blueprint,
            types.x,
            types.accumulator,
        );
    }
}
