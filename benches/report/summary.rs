//! Means over shapes.

use super::results::{Measure, Results};
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

/// Shares of the copy bandwidth by peer, op and element type.
pub struct Summary(BTreeMap<(String, String, String), Vec<f64>>);

impl Summary {
    /// Of large shapes, or of all where there is none; of peers that were timed at nine tenths of an op's shapes or
    /// more. Burn's own ops are known by calls queued back
    /// to back.
    pub fn of<'a>(runs: impl IntoIterator<Item = &'a Results> + Clone) -> Self {
        let rows = || {
            let runs = runs.clone().into_iter();
            runs.flat_map(|run| run.rows.iter().map(|row| (row, row.share(run.copy_gbps))))
        };
        let large = rows().any(|(row, _)| row.is_large());
        let mut shares = BTreeMap::<_, Vec<f64>>::new();
        for (row, share) in rows() {
            let measure = if row.peer == "burn" { Measure::Queued } else { Measure::Device };
            if let Some(share) = share
                && row.measure == measure
                && row.is_large() == large
            {
                let key = (row.peer.clone(), row.op.clone(), row.dtype.clone());
                shares.entry(key).or_default().push(share);
            }
        }
        // A mean over a few of the shapes beside one over all of them would mislead.
        let mut most = BTreeMap::<_, usize>::new();
        for ((_, op, dtype), shares) in &shares {
            let most = most.entry((op.clone(), dtype.clone())).or_default();
            *most = shares.len().max(*most);
        }
        shares.retain(|(_, op, dtype), shares| {
            shares.len() * 10 >= most[&(op.clone(), dtype.clone())] * 9
        });
        Self(shares)
    }

    /// The geometric mean of the shapes that the peer computes.
    pub fn share(&self, peer: &str, op: &str, dtype: &str) -> Option<f64> {
        let shares = self.0.get(&(peer.into(), op.into(), dtype.into()))?;
        Some((shares.iter().map(|share| share.ln()).sum::<f64>() / shares.len() as f64).exp())
    }

    /// Whether the peer was timed at as many shapes in this op as in any.
    pub fn is_whole(&self, peer: &str, op: &str, dtype: &str) -> bool {
        let most = self.0.values().map(Vec::len).max();
        self.0.get(&(peer.into(), op.into(), dtype.into())).map(Vec::len) == most
    }

    pub fn has_peer(&self, peer: &str) -> bool {
        self.0.keys().any(|(of, _, _)| of == peer)
    }

    pub fn has_op(&self, op: &str) -> bool {
        self.0.keys().any(|(_, of, _)| of == op)
    }

    pub fn dtypes(&self) -> Vec<&str> {
        let mut dtypes: Vec<_> = self.0.keys().map(|(_, _, dtype)| dtype.as_str()).collect();
        dtypes.sort();
        dtypes.dedup();
        dtypes
    }
}
