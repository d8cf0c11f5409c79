//! Joins results of runs on one device, of this crate, Burn and others, into tables and a chart.
//!
//! `cargo bench --bench compare -- FILE... [--write]`; `--write` puts them where docs/performance.md has them.

#[path = "../report/mod.rs"]
mod report;
mod tables;

use clap::Parser;
use report::{chart, results::Results, summary::Summary};
use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

/// Joins results into tables and a chart.
#[derive(Parser)]
struct Args {
    /// Results of this crate's bench and of benches/peers
    #[arg(required = true)]
    file: Vec<PathBuf>,

    /// Write into docs/performance.md and docs/performance.svg
    #[arg(long)]
    write: bool,

    /// Cargo adds this
    #[arg(long = "bench", hide = true)]
    _bench: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let runs: Vec<Results> =
        args.file.iter().map(|file| Results::read(file)).collect::<Result<_, _>>()?;
    if let Some(other) = runs.iter().find(|run| run.device != runs[0].device) {
        return Err(format!("runs on {} and on {}", runs[0].device, other.device).into());
    }
    let summary = Summary::of(&runs);
    let sections = [
        ("runs", tables::runs(&runs)),
        ("means", tables::means(&summary)),
        ("cells", tables::cells(&runs)),
        ("calls", tables::calls(&runs)),
    ];
    if !args.write {
        for (_, text) in sections {
            println!("{text}");
        }
        return Ok(());
    }
    let performance = root.join("docs/performance.md");
    for (name, text) in sections {
        replace(&performance, name, &text)?;
    }
    let title = format!("{}, {}", runs[0].device, runs[0].date);
    chart::draw(&root.join("docs/performance.svg"), &title, &summary)
}

/// Puts `text` between the marks `<!-- name -->` and `<!-- /name -->` of a file.
fn replace(path: &Path, name: &str, text: &str) -> Result<(), Box<dyn Error>> {
    let old = fs::read_to_string(path)?;
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let missing = || format!("{} has no marks {begin:?} and {end:?}", path.display());
    let (head, rest) = old.split_once(&begin).ok_or_else(missing)?;
    let (_, tail) = rest.split_once(&end).ok_or_else(missing)?;
    Ok(fs::write(path, format!("{head}{begin}\n{text}\n{end}{tail}"))?)
}
