use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, error::Error, fs, path::Path};

/// One run on one device, as its file holds it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    pub device: String,
    /// Versions, and what else is to be known of the run.
    #[serde(flatten)]
    pub about: BTreeMap<String, String>,
    pub date: String,
    /// Bytes read and written by a large copy, in gigabytes a second.
    pub copy_gbps: f64,
    pub method: String,
    pub rows: Vec<Row>,
}

/// A time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// `rms_fwd`, `ln_bwd`, …; `_fwd_bwd` is both in one.
    pub op: String,
    pub peer: String,
    pub dtype: String,
    pub rows: usize,
    pub cols: usize,
    /// Microseconds, or none where the peer refuses.
    pub us: Option<f64>,
    #[serde(default, skip_serializing_if = "Measure::is_device")]
    pub measure: Measure,
}

/// What a time is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// The device's kernels.
    #[default]
    Device,
    /// Calls queued back to back.
    Queued,
    /// The host, for a call that it queues.
    Host,
}

impl Measure {
    fn is_device(&self) -> bool {
        *self == Self::Device
    }
}

impl Results {
    pub fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let of_file = |error: &dyn Error| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| of_file(&error))?;
        Ok(serde_json::from_str(&text).map_err(|error| of_file(&error))?)
    }

    /// One row of times a line, so that two files can be compared.
    pub fn write(&self, path: &Path) -> Result<(), Box<dyn Error>> {
        let mut head = serde_json::to_value(self)?;
        head["rows"] = serde_json::json!([]);
        let head = serde_json::to_string_pretty(&head)?;
        let rows: Vec<_> = self.rows.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        let rows = format!("\"rows\": [\n    {}\n  ]", rows.join(",\n    "));
        Ok(fs::write(path, head.replace("\"rows\": []", &rows) + "\n")?)
    }
}

impl Row {
    /// Bytes that the op has to move over its time, as a part of `copy_gbps`: a forward pass reads one
    /// tensor and writes one, a backward pass reads two and writes one. With a residual one more is read each
    /// way, and forward one more written; cross-entropy reads its logits each way, and writes their gradient.
    pub fn share(&self, copy_gbps: f64) -> Option<f64> {
        let tensors = match self.op.rsplit_once('_')?.1 {
            "fwd" | "bwd" if self.op.starts_with("add_") && !self.op.ends_with("fwd_bwd") => 4,
            "fwd" if self.op == "ce_fwd" => 1,
            "bwd" if self.op == "ce_bwd" => 2,
            "fwd" => 2,
            "bwd" if !self.op.ends_with("fwd_bwd") => 3,
            _ => return None,
        };
        let size = match self.dtype.as_str() {
            "f64" => 8,
            "f32" => 4,
            _ => 2,
        };
        Some((tensors * self.rows * self.cols * size) as f64 / self.us? / 1e3 / copy_gbps)
    }

    /// Whether inputs of this shape are past what caches hold.
    pub fn is_large(&self) -> bool {
        self.rows * self.cols > 1 << 22
    }
}
