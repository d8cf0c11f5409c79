//! Tables in Markdown.

use crate::report::{
    results::{Measure, Results, Row},
    summary::{OPS, PEERS, Summary},
};
use std::collections::{BTreeMap, BTreeSet};

/// Where and when.
pub fn runs(runs: &[Results]) -> String {
    let mut text = String::new();
    for run in runs {
        let about: Vec<_> =
            run.about.iter().map(|(name, value)| format!("{name} {value}")).collect();
        text += &format!(
            "- {}, {}: {}; copy {} GB/s. {}\n",
            run.device,
            run.date,
            about.join(", "),
            run.copy_gbps,
            run.method
        );
    }
    text
}

/// Geometric means of shares of the copy bandwidth, of ops that were timed at all shapes.
pub fn means(summary: &Summary) -> String {
    let is_shown = |op: &str, dtype: &str| summary.is_whole(op, dtype);
    let peers = peers(|peer| {
        let shares = |op: &str, dtype: &str| summary.share(peer, op, dtype).is_some();
        let dtypes = summary.dtypes();
        OPS.iter().any(|(op, _)| dtypes.iter().any(|of| is_shown(op, of) && shares(op, of)))
    });
    let mut text = head(&["", "type"], &peers);
    for (op, name) in OPS {
        for dtype in summary.dtypes() {
            let shares: Vec<_> =
                peers.iter().map(|(peer, _)| summary.share(peer, op, dtype)).collect();
            if is_shown(op, dtype) {
                let best = best(&shares, f64::max);
                let cells = shares.iter().map(|share| cell(*share, 2, *share == best));
                text += &line([name.into(), dtype.into()].into_iter().chain(cells));
            }
        }
    }
    text
}

/// Microseconds of the device for each shape, and how the first peer's compares with the best of the
/// others.
pub fn cells(runs: &[Results]) -> String {
    let rows: Vec<&Row> = runs.iter().flat_map(|run| &run.rows).collect();
    let device = |row: &&&Row| row.measure == Measure::Device;
    let mut times = BTreeMap::new();
    for row in rows.iter().filter(device) {
        times.insert((&*row.op, &*row.dtype, row.rows, row.cols, &*row.peer), row.us);
    }
    let mut text = String::new();
    for (op, name) in OPS {
        let of_op: BTreeSet<_> = times
            .keys()
            .filter(|key| key.0 == op)
            .map(|(_, dtype, rows, columns, _)| (*dtype, *columns, *rows))
            .collect();
        if of_op.is_empty() {
            continue;
        }
        let peers = peers(|peer| times.keys().any(|key| key.0 == op && key.4 == peer));
        text += &format!("\n{name}:\n\n{}", head(&["shape", "type"], &peers));
        for (dtype, columns, rows) in of_op {
            let found: Vec<Option<f64>> = peers
                .iter()
                .map(|(peer, _)| times.get(&(op, dtype, rows, columns, *peer)).copied().flatten())
                .collect();
            let best = best(&found, f64::min);
            let cells = found.iter().map(|us| cell(*us, 1, *us == best));
            text += &line([format!("{rows}×{columns}"), dtype.into()].into_iter().chain(cells));
        }
    }
    text
}

/// Calls through Burn: this crate's beside Burn's own.
pub fn calls(runs: &[Results]) -> String {
    let mut times = BTreeMap::new();
    for row in runs.iter().flat_map(|run| &run.rows) {
        let forward = row.measure == Measure::Host && row.op.ends_with("_fwd");
        let both = row.measure == Measure::Queued && row.op.ends_with("_fwd_bwd");
        if (forward || both)
            && let Some(us) = row.us
        {
            let op = row.op.trim_end_matches("_bwd").trim_end_matches("_fwd");
            let found: &mut [[Option<f64>; 2]; 2] =
                times.entry((op, &*row.dtype, row.cols, row.rows)).or_default();
            found[usize::from(forward)][usize::from(row.peer == "burn")] = Some(us);
        }
    }
    if times.is_empty() {
        return "None in these results.\n".into();
    }
    let mut text = String::from(
        "| op | shape | type | forward and backward, µs | Burn's own | faster | host, µs | Burn's own |\n\
         | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for ((op, dtype, columns, rows), [both, host]) in times {
        let faster = both[0].zip(both[1]).map(|(own, burns)| burns / own);
        let cells = [both[0], both[1], faster, host[0], host[1]].map(|us| cell(us, 1, false));
        let names = [op.into(), format!("{rows}×{columns}"), dtype.into()];
        text += &line(names.into_iter().chain(cells));
    }
    text
}

/// The best of several figures.
fn best(found: &[Option<f64>], better: fn(f64, f64) -> f64) -> Option<f64> {
    let all: Vec<f64> = found.iter().flatten().copied().collect();
    all.iter().copied().reduce(better).filter(|_| all.len() > 1)
}

fn peers(has: impl Fn(&str) -> bool) -> Vec<(&'static str, &'static str)> {
    PEERS.into_iter().filter(|(peer, _)| has(peer)).collect()
}

fn head(left: &[&str], peers: &[(&str, &str)]) -> String {
    let names = left.iter().copied().chain(peers.iter().map(|(_, name)| *name));
    let rules = left.iter().map(|_| "---").chain(peers.iter().map(|_| "---:"));
    line(names.map(String::from)) + &line(rules.map(String::from))
}

fn line(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

fn cell(value: Option<f64>, digits: usize, bold: bool) -> String {
    match value {
        Some(value) if bold => format!("**{value:.digits$}**"),
        Some(value) => format!("{value:.digits$}"),
        None => String::new(),
    }
}
