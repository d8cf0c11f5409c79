use crate::model::CONTEXT;
use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Sequences in a batch.
pub const BATCH: usize = 8;

/// A text as numbers: each character's place in the sorted set of the text's characters.
pub struct Corpus {
    ids: Vec<i32>,
    vocabulary: usize,
}

/// Characters and, for each, the one that follows it: both `[BATCH, CONTEXT]`.
pub struct Batch {
    pub inputs: Tensor<2, Int>,
    pub targets: Tensor<2, Int>,
}

impl Corpus {
    /// Reads `file`, or this project's own text.
    pub fn load(file: Option<&Path>) -> Result<Self, String> {
        let files = file.map_or_else(project_files, |file| Ok(vec![file.to_owned()]))?;
        let mut text = String::new();
        for file in &files {
            text += &fs::read_to_string(file).map_err(|error| cannot_read(file, error))?;
        }
        Self::new(&text)
    }

    fn new(text: &str) -> Result<Self, String> {
        let (length, least) = (text.chars().count(), CONTEXT + 2);
        if length < least {
            return Err(format!(
                "the text has {length} characters, but at least {least} are needed"
            ));
        }
        let characters: Vec<_> = text.chars().collect::<BTreeSet<_>>().into_iter().collect();
        let id = |c| characters.binary_search(&c).expect("the set is of this text") as i32;
        Ok(Self { ids: text.chars().map(id).collect(), vocabulary: characters.len() })
    }

    /// The number of characters.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// The number of different characters.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Batches of random places in the text, without end: the same ones for the same seed.
    pub fn batches(&self, seed: u64, device: &Device) -> impl Iterator<Item = Batch> {
        let mut rng = StdRng::seed_from_u64(seed);
        std::iter::repeat_with(move || {
            let windows: Vec<_> = (0..BATCH)
                .map(|_| rng.random_range(0..self.len() - CONTEXT))
                .map(|start| &self.ids[start..=start + CONTEXT])
                .collect();
            let tensor = |from: usize| {
                let ids: Vec<_> = windows
                    .iter()
                    .flat_map(|window| &window[from..from + CONTEXT])
                    .copied()
                    .collect();
                Tensor::from_data(TensorData::new(ids, [BATCH, CONTEXT]), device)
            };
            Batch { inputs: tensor(0), targets: tensor(1) }
        })
    }
}

/// Sources and documents of this project, in an order that is the same everywhere.
fn project_files() -> Result<Vec<PathBuf>, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for name in ["README.md", "CHANGELOG.md", "Cargo.toml", "docs", "src"] {
        let path = root.join(name);
        if path.exists() {
            collect(&path, &mut files)?;
        }
    }
    Ok(files)
}

/// Adds `path`, or what lies below it in Markdown and Rust.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let entries = fs::read_dir(path)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>());
    let mut entries = entries.map_err(|error| cannot_read(path, error))?;
    entries.sort();
    entries
        .retain(|path| path.is_dir() || path.extension().is_some_and(|e| e == "md" || e == "rs"));
    entries.iter().try_for_each(|path| collect(path, files))
}

fn cannot_read(path: &Path, error: std::io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}
