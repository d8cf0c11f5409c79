//! Means over shapes, of the same shapes for all peers of an op.

use super::results::{Measure, Results, Row};
use std::collections::BTreeMap;

/// The directions of the ops that figures are shown of, with their names.
pub const OPS: [(&str, &str); 18] = [
    ("rms_fwd", "RMSNorm forward"),
    ("rms_bwd", "RMSNorm backward"),
    ("ln_fwd", "LayerNorm forward"),
    ("ln_bwd", "LayerNorm backward"),
    ("add_rms_fwd", "residual and RMSNorm forward"),
    ("add_rms_bwd", "residual and RMSNorm backward"),
    ("add_ln_fwd", "residual and LayerNorm forward"),
    ("add_ln_bwd", "residual and LayerNorm backward"),
    ("softmax_fwd", "softmax forward"),
    ("softmax_bwd", "softmax backward"),
    ("log_softmax_fwd", "log-softmax forward"),
    ("log_softmax_bwd", "log-softmax backward"),
    ("softmax_dim1_fwd", "softmax down columns forward"),
    ("softmax_dim1_bwd", "softmax down columns backward"),
    ("attention_fwd", "causal attention softmax forward"),
    ("attention_bwd", "causal attention softmax backward"),
    ("ce_fwd", "cross-entropy forward"),
    ("ce_bwd", "cross-entropy backward"),
];

/// Peers in the order they are shown in, with their names.
pub const PEERS: [(&str, &str); 6] = [
    ("burn-fused", "burn-fused"),
    ("quack", "QuACK"),
    ("liger", "Liger"),
    ("compile", "PyTorch compiled"),
    ("torch", "PyTorch"),
    ("burn", "Burn"),
];

/// Shares of the copy bandwidth by op and element type.
pub struct Summary(BTreeMap<(String, String), Shares>);

/// Those of the peers at the shapes that all of them were timed at.
struct Shares {
    shapes: usize,
    /// Geometric means.
    peers: BTreeMap<String, f64>,
}

impl Summary {
    /// Of large shapes, or of all where there is none; of peers that were timed at nine tenths of an op's shapes or
    /// more. Burn's own ops are known by calls queued back to back. The copy is the fastest of all runs.
    pub fn of<'a>(runs: impl IntoIterator<Item = &'a Results> + Clone) -> Self {
        let copy = runs.clone().into_iter().map(|run| run.copy_gbps).fold(0.0, f64::max);
        let rows = || runs.clone().into_iter().flat_map(|run| &run.rows);
        let large = rows().any(Row::is_large);
        let mut found = BTreeMap::<_, BTreeMap<String, BTreeMap<_, f64>>>::new();
        for row in rows().filter(|row| row.is_large() == large) {
            let measure = if row.peer == "burn" { Measure::Queued } else { Measure::Device };
            if let Some(share) = row.share(copy).filter(|_| row.measure == measure) {
                let peers = found.entry((row.op.clone(), row.dtype.clone())).or_default();
                let shapes = peers.entry(row.peer.clone()).or_default();
                shapes.insert((row.rows, row.cols), share);
            }
        }
        Self(found.into_iter().map(|(key, peers)| (key, Shares::of(peers))).collect())
    }

    /// The geometric mean of the shapes that all of an op's peers were timed at.
    pub fn share(&self, peer: &str, op: &str, dtype: &str) -> Option<f64> {
        self.0.get(&(op.into(), dtype.into()))?.peers.get(peer).copied()
    }

    /// How many shapes those are.
    pub fn shapes(&self, op: &str, dtype: &str) -> usize {
        self.0.get(&(op.into(), dtype.into())).map_or(0, |shares| shares.shapes)
    }

    /// Whether they are nearly as many as any op's.
    pub fn is_whole(&self, op: &str, dtype: &str) -> bool {
        let most = self.0.values().map(|shares| shares.shapes).max().unwrap_or(0);
        self.shapes(op, dtype) * 10 >= most * 9
    }

    pub fn has_peer(&self, peer: &str) -> bool {
        self.0.values().any(|shares| shares.peers.contains_key(peer))
    }

    /// The peers of an op, in any type, by their places in [`PEERS`].
    pub fn peers(&self, op: &str) -> Vec<usize> {
        let of_op: Vec<_> = self.0.iter().filter(|((of, _), _)| of == op).collect();
        let has = |peer: &usize| {
            of_op.iter().any(|(_, shares)| shares.peers.contains_key(PEERS[*peer].0))
        };
        (0..PEERS.len()).filter(has).collect()
    }

    pub fn dtypes(&self) -> Vec<&str> {
        let mut dtypes: Vec<_> = self.0.keys().map(|(_, dtype)| dtype.as_str()).collect();
        dtypes.sort();
        dtypes.dedup();
        dtypes
    }
}

impl Shares {
    fn of(mut peers: BTreeMap<String, BTreeMap<(usize, usize), f64>>) -> Self {
        // A mean over a few of the shapes beside one over all of them would mislead.
        let most = peers.values().map(BTreeMap::len).max().unwrap_or(0);
        peers.retain(|_, shapes| shapes.len() * 10 >= most * 9);
        let mut common: Vec<_> = peers.values().flat_map(BTreeMap::keys).copied().collect();
        common.sort();
        common.dedup();
        common.retain(|shape| peers.values().all(|shapes| shapes.contains_key(shape)));
        let mean = |shapes: BTreeMap<_, f64>| {
            let logs: f64 = common.iter().map(|shape| shapes[shape].ln()).sum();
            (logs / common.len() as f64).exp()
        };
        let shapes = common.len();
        Self { shapes, peers: peers.into_iter().map(|(peer, found)| (peer, mean(found))).collect() }
    }
}
