//! The bounds, and what a failure says.
//!
//! An error is measured against its value's scale (see `oracle`): 1e-6 of it where sums are taken
//! in f32, which is 17 roundings and what the README promises; 1e-14 where in f64, 90 of its
//! roundings. A sum over rows may be off by 4 times as much: its terms are already off by some
//! roundings each, and so are its partial sums, some of which are larger than the sum.
//! A value in a narrower type than sums are taken in is rounded to it once: to within half of that
//! type's unit in the last place, of whichever is larger, the exact or the found value.

use crate::{
    oracle::Exact,
    random::seed,
    values::{exact, round, ulp},
};
use burn::tensor::{DType, TensorData};

/// What a value is, for its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A row's own.
    Row,
    /// A sum over rows.
    RowSum,
}

/// The worst of an output's errors, as a part of its bound.
pub type Verdict = Result<f64, String>;

/// Compares the output `name` with its exact values. Sums are taken in the type `accumulator`.
pub fn compare(
    name: &str,
    kind: Kind,
    expected: &Exact,
    found: &TensorData,
    accumulator: DType,
) -> Verdict {
    let (dtype, values) = (found.dtype(), exact(found));
    if values.len() != expected.values.len() {
        return Err(format!("{name}: {} values, expected {}", values.len(), expected.values.len()));
    }
    let relative = if accumulator == DType::F64 { 1e-14 } else { 1e-6 };
    let relative = if kind == Kind::RowSum { 4.0 * relative } else { relative };
    let bound = |i: usize| {
        let rounding = if dtype.size() < accumulator.size() {
            0.5 * ulp(values[i].abs().max(expected.values[i].abs()), dtype)
        } else {
            0.0
        };
        relative * expected.scales[i] + rounding
    };
    let part = |i: usize| {
        let (expected, found) = (expected.values[i], values[i]);
        let exact = expected.is_nan() && found.is_nan() || expected == found;
        // Past the type's range the nearest value is the infinity.
        let beyond = !expected.is_nan() && found == round(expected, dtype);
        if exact || beyond {
            return 0.0;
        }
        let part = (found - expected).abs() / bound(i);
        if part.is_nan() { f64::INFINITY } else { part }
    };
    let parts: Vec<f64> = (0..values.len()).map(part).collect();
    let Some(worst) = (0..parts.len()).max_by(|a, b| parts[*a].total_cmp(&parts[*b])) else {
        return Ok(0.0);
    };
    if parts[worst] <= 1.0 {
        return Ok(parts[worst]);
    }
    let wrong = parts.iter().filter(|part| **part > 1.0).count();
    Err(format!(
        "{name} ({dtype:?}): {wrong} of {} values are off; the worst, at {worst}: expected {:e}, \
         found {:e}, off by {:e}, {:.2} of its bound {:e}; BURN_FUSED_SEED={}",
        values.len(),
        expected.values[worst],
        values[worst],
        (values[worst] - expected.values[worst]).abs(),
        parts[worst],
        bound(worst),
        seed(),
    ))
}

/// Says that two results differ in some bit, and where first.
pub fn same_bits(name: &str, first: &TensorData, second: &TensorData) -> Verdict {
    if (first.dtype(), first.shape()) != (second.dtype(), second.shape()) {
        return Err(format!(
            "{name}: {:?} {:?} against {:?} {:?}",
            first.dtype(),
            first.shape(),
            second.dtype(),
            second.shape()
        ));
    }
    if first.as_bytes() == second.as_bytes() {
        return Ok(0.0);
    }
    let (first, second) = (exact(first), exact(second));
    let differ = |i: &usize| first[*i].to_bits() != second[*i].to_bits();
    let at = (0..first.len()).find(differ).unwrap_or_default();
    Err(format!(
        "{name}: {} of {} values differ in their bits; the first, at {at}: {:e} and {:e}; \
         BURN_FUSED_SEED={}",
        (0..first.len()).filter(differ).count(),
        first.len(),
        first[at],
        second[at],
        seed(),
    ))
}

/// The verdicts of a test: all failures are told, not the first alone.
#[derive(Debug, Default)]
pub struct Report {
    failures: Vec<String>,
    worst: f64,
    cases: usize,
}

impl Report {
    pub fn add(
        &mut self,
        case: impl std::fmt::Display,
        verdicts: impl IntoIterator<Item = Verdict>,
    ) {
        self.cases += 1;
        for verdict in verdicts {
            match verdict {
                Ok(part) => self.worst = self.worst.max(part),
                Err(failure) => self.failures.push(format!("{case}: {failure}")),
            }
        }
    }

    /// Panics if anything failed, or if there was nothing to fail.
    #[track_caller]
    pub fn finish(self) {
        println!("{} cases, the worst error is {:.2} of its bound", self.cases, self.worst);
        if let Err(failures) = self.into_result() {
            panic!("{failures}");
        }
    }

    pub fn into_result(self) -> Result<(), String> {
        if self.cases == 0 {
            return Err("the test compared nothing".into());
        }
        if self.failures.is_empty() {
            return Ok(());
        }
        let count = format!("{} failures in {} cases:", self.failures.len(), self.cases);
        let shown = self.failures.into_iter().take(20);
        Err(std::iter::once(count).chain(shown).collect::<Vec<_>>().join("\n"))
    }
}
