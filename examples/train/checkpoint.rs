use burn::{
    lr_scheduler::{LrSchedulerRecord, module_lr_scheduler::ModuleLrScheduler},
    module::Module,
    optim::ModuleOptimizer,
    store::ModuleRecord,
};
use serde::{Deserialize, Serialize};
use std::{
    fmt::Display,
    fs,
    path::{Path, PathBuf},
};

/// A training under way.
pub struct Training<M> {
    pub model: M,
    pub optimizer: ModuleOptimizer,
    pub rates: ModuleLrScheduler,
    pub done: Done,
}

/// What has been done.
#[derive(Default, Serialize, Deserialize)]
pub struct Done {
    pub steps: usize,
    /// Of each step.
    pub losses: Vec<f32>,
    /// Steps, and the mean loss after them of what is held out.
    pub validation: Vec<(usize, f32)>,
}

/// A folder that a training is kept in, from which it goes on as if it had not stopped.
pub struct Checkpoint(PathBuf);

impl Checkpoint {
    /// That of one of the packages within `folder`.
    pub fn of(folder: &Path, package: &str) -> Result<Self, String> {
        let folder = folder.join(package);
        fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        Ok(Self(folder))
    }

    /// Keeps a training, in place of the one that was kept.
    pub fn save<M: Module>(&self, training: &Training<M>) -> Result<(), String> {
        let Training { model, optimizer, rates, done } = training;
        let before = self.done()?;
        let [of_model, of_optimizer, of_rates] = self.files(done.steps);
        let failed = |error: &dyn Display| format!("cannot write to {}: {error}", self.0.display());
        model.clone().into_record().save(of_model).map_err(|error| failed(&error))?;
        optimizer.save(of_optimizer).map_err(|error| failed(&error))?;
        rates.to_record().save(of_rates).map_err(|error| failed(&error))?;
        // Last, and at once: what it names is there, whenever the program is stopped.
        let text = serde_json::to_string(done).map_err(|error| failed(&error))?;
        let new = self.0.join("new.json");
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, self.last()))
            .map_err(|error| failed(&error))?;
        let old = before.filter(|before| before.steps != done.steps);
        for file in old.map(|old| self.files(old.steps)).into_iter().flatten() {
            fs::remove_file(file).map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// The training that is kept, or else the one given.
    pub fn load<M: Module>(&self, training: Training<M>) -> Result<Training<M>, String> {
        let Some(done) = self.done()? else { return Ok(training) };
        let [of_model, of_optimizer, of_rates] = self.files(done.steps);
        let failed = |error: &dyn Display| format!("cannot read {}: {error}", self.0.display());
        let model = ModuleRecord::load(of_model).map_err(|error| failed(&error))?;
        let rates = LrSchedulerRecord::load(of_rates).map_err(|error| failed(&error))?;
        Ok(Training {
            model: training.model.load_record(model),
            optimizer: training.optimizer.load(of_optimizer).map_err(|error| failed(&error))?,
            rates: training.rates.load_record(rates),
            done,
        })
    }

    /// Of the model, the optimizer and the learning rate.
    fn files(&self, steps: usize) -> [PathBuf; 3] {
        ["model", "optimizer", "rate"].map(|name| self.0.join(format!("{name}-{steps}.bpk")))
    }

    fn last(&self) -> PathBuf {
        self.0.join("last.json")
    }

    fn done(&self) -> Result<Option<Done>, String> {
        let path = self.last();
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let done = serde_json::from_str(&text);
        done.map(Some).map_err(|error| format!("{} is no checkpoint: {error}", path.display()))
    }
}
