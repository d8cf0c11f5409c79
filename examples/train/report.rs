use crate::{layers::Norm, model::Dims, text::Corpus, train::Run};
use burn::tensor::{Device, Tensor};
use burn_fused::{
    FusedError, attention_softmax_execution, cross_entropy_execution, layer_norm_execution,
    ops::Execution, rms_norm_execution,
};
use plotters::prelude::*;
use std::{error::Error, path::Path};

/// Steps whose mean is the final loss.
const LAST: usize = 10;

/// What is trained on what.
pub fn introduction(corpus: &Corpus, parameters: usize) -> String {
    format!(
        "{parameters} parameters, {} characters of text, {} different ones; {} a step",
        corpus.len(),
        corpus.vocabulary(),
        corpus.tokens(),
    )
}

/// Which paths burn-fused takes on `device` for the model's layers.
pub fn execution(norm: Norm, dims: Dims, device: &Device) -> Result<String, String> {
    let Dims { width, heads, .. } = dims;
    let x = Tensor::<3>::zeros([1, 1, width], device);
    let scores = Tensor::<4>::zeros([1, heads, 1, 1], device);
    let logits = Tensor::<2>::zeros([1, width], device);
    let parameter = Tensor::<1>::ones([width], device);
    let norm_path = match norm {
        Norm::Rms => rms_norm_execution(&x, Some(&parameter)),
        Norm::Layer => layer_norm_execution(&x, Some(&parameter), Some(&parameter)),
    };
    let line = |op: &str, execution: Result<Execution, FusedError>| {
        let Execution { path, accumulator, deterministic, .. } =
            execution.map_err(|error| error.to_string())?;
        let bits = if deterministic { "deterministic" } else { "not promised deterministic" };
        Ok::<_, String>(format!("{op} of burn_fused: {path}, {accumulator:?} sums, {bits}"))
    };
    let lines = [
        line(norm.name(), norm_path)?,
        line("softmax", attention_softmax_execution(&scores))?,
        line("cross-entropy", cross_entropy_execution(&logits))?,
    ];
    Ok(lines.join("\n"))
}

/// The runs side by side, and how far their losses are apart.
pub fn table(runs: &[Run], tokens: usize) -> String {
    let row = |label: &str, cell: &dyn Fn(&Run) -> String| {
        let cells: String = runs.iter().map(|run| format!("{:>14}", cell(run))).collect();
        format!("{label:<16}{cells}\n")
    };
    let of_time = |run: &Run, text: &dyn Fn(f64) -> String| {
        step_seconds(run).map_or_else(|| "none taken".into(), text)
    };
    let mut table = row("", &|run| run.package.to_owned())
        + &row("final loss", &|run| format!("{:.4}", final_loss(run)))
        + &row("validation loss", &|run| {
            run.validation.last().map_or_else(String::new, |(_, loss)| format!("{loss:.4}"))
        })
        + &row("time a step", &|run| of_time(run, &|time| format!("{:.1} ms", 1e3 * time)))
        + &row("tokens/s", &|run| of_time(run, &|time| format!("{:.0}", tokens as f64 / time)))
        + &row("memory", &|run| {
            run.memory.map_or_else(|| "not told".into(), |m| format!("{:.2} GB", m as f64 / 1e9))
        });
    if let [first, second] = runs {
        let losses = first.losses.iter().zip(&second.losses);
        let apart = losses.map(|(left, right)| (left - right).abs()).fold(0.0, f32::max);
        table += &format!("largest difference between the losses of a step: {apart:.1e}");
    }
    table
}

fn final_loss(run: &Run) -> f32 {
    let last = &run.losses[run.losses.len().saturating_sub(LAST)..];
    last.iter().sum::<f32>() / last.len() as f32
}

/// The median of the second half: kernels are compiled and tuned in the first steps.
fn step_seconds(run: &Run) -> Option<f64> {
    let mut seconds = run.seconds[run.seconds.len() / 2..].to_vec();
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied()
}

/// Draws both loss curves into an SVG file.
pub fn plot(path: &Path, norm: Norm, runs: &[Run]) -> Result<(), String> {
    draw(path, norm, runs).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn draw(path: &Path, norm: Norm, runs: &[Run]) -> Result<(), Box<dyn Error>> {
    let losses = || runs.iter().flat_map(|run| run.losses.iter().copied());
    let (low, high) = (losses().fold(f32::MAX, f32::min), losses().fold(f32::MIN, f32::max));
    let caption =
        format!("A character transformer with {}, softmax and loss of either crate", norm.name());
    let area = SVGBackend::new(path, (900, 560)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(caption, ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(0..runs[0].losses.len(), low - 0.1..high + 0.1)?;
    chart
        .configure_mesh()
        .x_desc("step")
        .y_desc("training loss (nats per character)")
        .y_label_formatter(&|loss| format!("{loss:.1}"))
        .axis_desc_style(("sans-serif", 16))
        .label_style(("sans-serif", 14))
        .light_line_style(TRANSPARENT)
        .draw()?;
    // Where the curves coincide, the thin one shows on the broad one.
    let styles = [RGBColor(20, 60, 140).stroke_width(2), RGBColor(245, 170, 80).stroke_width(7)];
    for (run, style) in runs.iter().zip(styles).rev() {
        let points = run.losses.iter().copied().enumerate();
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(run.package)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style));
    }
    chart
        .configure_series_labels()
        .label_font(("sans-serif", 16))
        .background_style(WHITE)
        .border_style(BLACK.mix(0.3))
        .margin(12)
        .legend_area_size(32)
        .draw()?;
    area.present()?;
    Ok(())
}
