use crate::{
    Dtype,
    calls::{self, Peer},
    kernels,
    machine::Machine,
    op::Op,
    report::results::{Measure, Row},
};

/// What was measured of one op, element type and shape.
pub struct Line {
    op: Op,
    dtype: Dtype,
    shape: [usize; 2],
    /// Forward and backward.
    kernels: [f64; 2],
    /// This crate and Burn.
    calls: Option<[calls::Times; 2]>,
}

impl Line {
    /// Measures the kernels, and calls through Burn if they are wanted.
    pub fn measure(
        machine: &Machine,
        op: Op,
        dtype: Dtype,
        shape: [usize; 2],
        wants_calls: bool,
    ) -> Self {
        let dims = op.shape(shape);
        let kernels = kernels::time(machine, op, dtype.float(), dims);
        let time = |peer| calls::time(machine, peer, op, dtype.float(), dims);
        let calls = wants_calls.then(|| [Peer::BurnFused, Peer::Burn].map(time));
        Self { op, dtype, shape, kernels, calls }
    }

    pub const HEAD: &str = "                                 ┌── kernels: µs, share of copy ──┐ ┌──── forward and backward by autodiff ────┐ ┌ host, forward ┐
op           dtype         shape    forward          backward          burn-fused µs      Burn µs   faster     burn-fused  Burn";

    pub fn text(&self, copy_gbps: f64) -> String {
        let rows = self.rows();
        let share = |row: &Row| row.share(copy_gbps).unwrap_or_default();
        let [rows_, columns] = self.shape;
        let mut text = format!(
            "{:12} {:>5} {:>13} {:>10.2} {:>4.2} {:>12.2} {:>4.2}",
            self.op.name(),
            self.dtype.name(),
            format!("{rows_}x{columns}"),
            self.kernels[0],
            share(&rows[0]),
            self.kernels[1],
            share(&rows[1]),
        );
        if let Some([own, burns]) = &self.calls {
            text += &format!(
                " {:>19.1} {:>12.1} {:>7.1}x {:>14.1} {:>6.1}",
                own.both,
                burns.both,
                burns.both / own.both,
                own.host,
                burns.host,
            );
        }
        text
    }

    /// Of the kernels first.
    pub fn rows(&self) -> Vec<Row> {
        let row = |peer: Peer, pass: &str, measure, us: f64| Row {
            op: format!("{}_{pass}", self.op.name()),
            peer: peer.name().into(),
            dtype: self.dtype.name().into(),
            rows: self.shape[0],
            cols: self.shape[1],
            us: Some((us * 100.0).round() / 100.0),
            measure,
        };
        let [forward, backward] = self.kernels;
        let mut rows = vec![
            row(Peer::BurnFused, "fwd", Measure::Device, forward),
            row(Peer::BurnFused, "bwd", Measure::Device, backward),
        ];
        for (peer, times) in
            [Peer::BurnFused, Peer::Burn].into_iter().zip(self.calls.iter().flatten())
        {
            let backward = (times.both - times.forward).max(0.0);
            rows.extend([
                row(peer, "fwd", Measure::Queued, times.forward),
                row(peer, "bwd", Measure::Queued, backward),
                row(peer, "fwd_bwd", Measure::Queued, times.both),
                row(peer, "fwd", Measure::Host, times.host),
            ]);
        }
        rows
    }
}
