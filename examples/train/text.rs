use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// A text as numbers: each character's place in the sorted set of the text's characters. Its end is held
/// out for validation.
pub struct Corpus {
    characters: Vec<char>,
    training: Vec<i32>,
    validation: Vec<i32>,
    context: usize,
    batch: usize,
}

/// Characters and, for each, the one that follows it: both `[batch, context]`.
pub struct Batch {
    pub inputs: Tensor<2, Int>,
    pub targets: Tensor<2, Int>,
}

impl Corpus {
    /// Reads `file`, or this project's own text.
    pub fn load(file: Option<&Path>, context: usize, batch: usize) -> Result<Self, String> {
        let files = file.map_or_else(project_files, |file| Ok(vec![file.to_owned()]))?;
        let mut text = String::new();
        for file in &files {
            text += &fs::read_to_string(file).map_err(|error| cannot_read(file, error))?;
        }
        Self::new(&text, context, batch)
    }

    fn new(text: &str, context: usize, batch: usize) -> Result<Self, String> {
        // A tenth holds a sequence and what follows it.
        let (length, least) = (text.chars().count(), 10 * (context + 2));
        if length < least {
            return Err(format!(
                "the text has {length} characters, but at least {least} are needed"
            ));
        }
        let characters: Vec<_> = text.chars().collect::<BTreeSet<_>>().into_iter().collect();
        let id = |c| characters.binary_search(&c).expect("the set is of this text") as i32;
        let mut training: Vec<_> = text.chars().map(id).collect();
        let validation = training.split_off(length - length / 10);
        Ok(Self { characters, training, validation, context, batch })
    }

    /// The number of characters.
    pub fn len(&self) -> usize {
        self.training.len() + self.validation.len()
    }

    /// The number of different characters.
    pub fn vocabulary(&self) -> usize {
        self.characters.len()
    }

    /// Characters that a batch has.
    pub fn tokens(&self) -> usize {
        self.batch * self.context
    }

    /// The batch of a step: random places in the text, the same ones for the same seed.
    pub fn batch(&self, seed: u64, step: usize, device: &Device) -> Batch {
        // Steps, not batches drawn one after another, so that a run can be resumed anywhere.
        let rng = StdRng::seed_from_u64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ step as u64);
        self.draw(&self.training, rng, device)
    }

    /// Batches of what is held out, always the same.
    pub fn validation(&self, count: usize, device: &Device) -> impl Iterator<Item = Batch> {
        let batch = |i| self.draw(&self.validation, StdRng::seed_from_u64(i), device);
        (0..count as u64).map(batch)
    }

    fn draw(&self, ids: &[i32], mut rng: StdRng, device: &Device) -> Batch {
        let context = self.context;
        let windows: Vec<_> = (0..self.batch)
            .map(|_| rng.random_range(0..ids.len() - context))
            .map(|start| &ids[start..=start + context])
            .collect();
        let tensor = |from: usize| {
            let ids = windows.iter().flat_map(|window| &window[from..from + context]);
            let ids: Vec<_> = ids.copied().collect();
            Tensor::from_data(TensorData::new(ids, [self.batch, context]), device)
        };
        Batch { inputs: tensor(0), targets: tensor(1) }
    }

    /// Characters as numbers, those that the text has.
    pub fn encode(&self, text: &str) -> Vec<i32> {
        let id = |c| self.characters.binary_search(&c).ok().map(|id| id as i32);
        text.chars().filter_map(id).collect()
    }

    /// Numbers as characters.
    pub fn decode(&self, ids: &[i32]) -> String {
        ids.iter().map(|id| self.characters[*id as usize]).collect()
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
