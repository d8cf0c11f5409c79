use crate::{
    model::{CONTEXT, D_MODEL, HEADS},
    norm::Kind,
    text::{BATCH, Corpus},
    train::Run,
};
use burn::tensor::{Device, Tensor};
use burn_fused::{
    FusedError, layer_norm_execution, ops::Execution, rms_norm_execution, softmax_execution,
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
        BATCH * CONTEXT,
    )
}

/// Which paths burn-fused takes on `device` for the model's norms and for its softmax.
pub fn execution(norm: Kind, device: &Device) -> Result<String, String> {
    let x = Tensor::<3>::zeros([BATCH, CONTEXT, D_MODEL], device);
    let scores = Tensor::<4>::zeros([BATCH, HEADS, CONTEXT, CONTEXT], device);
    let parameter = Tensor::<1>::ones([D_MODEL], device);
    let norm_path = match norm {
        Kind::Rms => rms_norm_execution(&x, Some(&parameter)),
        Kind::Layer => layer_norm_execution(&x, Some(&parameter), Some(&parameter)),
    };
    let line = |op: &str, execution: Result<Execution, FusedError>| {
        let Execution { path, accumulator, deterministic, .. } =
            execution.map_err(|error| error.to_string())?;
        let bits = if deterministic { "deterministic" } else { "not promised deterministic" };
        Ok::<_, String>(format!("{op} of burn_fused: {path}, {accumulator:?} sums, {bits}"))
    };
    let softmax_path = softmax_execution(&scores, 3);
    Ok(format!("{}\n{}", line(norm.name(), norm_path)?, line("softmax", softmax_path)?))
}

/// Both runs side by side, and how far their losses are apart.
pub fn table(runs: &[Run; 2]) -> String {
    let row = |label: &str, cell: &dyn Fn(&Run) -> String| {
        let [left, right] = runs.each_ref().map(cell);
        format!("{label:<16}{left:>14}{right:>14}\n")
    };
    let losses = runs[0].losses.iter().zip(&runs[1].losses);
    let apart = losses.map(|(left, right)| (left - right).abs()).fold(0.0, f32::max);
    row("", &|run| run.package.to_owned())
        + &row("final loss", &|run| format!("{:.4}", final_loss(run)))
        + &row("time a step", &|run| format!("{:.1} ms", 1e3 * step_seconds(run)))
        + &row("tokens/s", &|run| format!("{:.0}", (BATCH * CONTEXT) as f64 / step_seconds(run)))
        + &format!("largest difference between the losses of a step: {apart:.1e}")
}

fn final_loss(run: &Run) -> f32 {
    let last = &run.losses[run.losses.len().saturating_sub(LAST)..];
    last.iter().sum::<f32>() / last.len() as f32
}

/// The median of the second half: kernels are compiled and tuned in the first steps.
fn step_seconds(run: &Run) -> f64 {
    let mut seconds = run.seconds[run.seconds.len() / 2..].to_vec();
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Draws both loss curves into an SVG file.
pub fn plot(path: &Path, norm: Kind, runs: &[Run; 2]) -> Result<(), String> {
    draw(path, norm, runs).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn draw(path: &Path, norm: Kind, runs: &[Run; 2]) -> Result<(), Box<dyn Error>> {
    let losses = || runs.iter().flat_map(|run| run.losses.iter().copied());
    let (low, high) = (losses().fold(f32::MAX, f32::min), losses().fold(f32::MIN, f32::max));
    let caption =
        format!("A character transformer with {} and softmax of either crate", norm.name());
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
