use super::summary::{OPS, PEERS, Summary};
use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use std::{error::Error, path::Path};

const COLORS: [RGBColor; PEERS.len()] = [
    RGBColor(20, 90, 180),
    RGBColor(130, 190, 110),
    RGBColor(240, 170, 70),
    RGBColor(200, 130, 190),
    RGBColor(225, 105, 85),
    RGBColor(160, 160, 160),
];

/// Draws a panel for each element type, with bars for the ops of each peer.
pub fn draw(path: &Path, title: &str, summary: &Summary) -> Result<(), Box<dyn Error>> {
    let dtypes = summary.dtypes();
    let height = 80 + 300 * dtypes.len() as u32;
    let area = SVGBackend::new(path, (1100, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let area = area.titled(title, ("sans-serif", 22))?;
    let (legend, panels) = area.split_vertically(30);
    let peers: Vec<_> = (0..PEERS.len()).filter(|peer| summary.has_peer(PEERS[*peer].0)).collect();
    for (place, peer) in peers.iter().enumerate() {
        let x = 70 + 150 * place as i32;
        legend.draw(&Rectangle::new([(x, 8), (x + 16, 22)], COLORS[*peer].filled()))?;
        legend.draw(&Text::new(PEERS[*peer].1, (x + 22, 8), ("sans-serif", 15)))?;
    }
    for (panel, dtype) in panels.split_evenly((dtypes.len(), 1)).iter().zip(dtypes) {
        draw_panel(panel, dtype, &peers, summary)?;
    }
    area.present()?;
    Ok(())
}

fn draw_panel(
    area: &DrawingArea<SVGBackend, plotters::coord::Shift>,
    dtype: &str,
    peers: &[usize],
    summary: &Summary,
) -> Result<(), Box<dyn Error>> {
    let ops: Vec<_> = OPS.into_iter().filter(|(op, _)| summary.has_op(op)).collect();
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(28)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..ops.len() as f64, 0.0..1.05)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .y_labels(6)
        .y_desc(format!("{dtype}: share of copy"))
        .y_label_formatter(&|share| format!("{:.0} %", 100.0 * share))
        .label_style(("sans-serif", 13))
        .axis_desc_style(("sans-serif", 15))
        .draw()?;
    let bar = 0.84 / peers.len() as f64;
    for (group, (op, _)) in ops.iter().enumerate() {
        for (place, peer) in peers.iter().enumerate() {
            let Some(share) = summary.share(PEERS[*peer].0, op, dtype) else { continue };
            let left = group as f64 + 0.08 + bar * place as f64;
            let corners = [(left, 0.0), (left + 0.9 * bar, share.min(1.05))];
            chart.draw_series([Rectangle::new(corners, COLORS[*peer].filled())])?;
        }
    }
    let style = ("sans-serif", 13).into_font().color(&BLACK);
    let style = style.pos(Pos::new(HPos::Center, VPos::Top));
    for (group, (_, name)) in ops.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(group as f64 + 0.5, 0.0));
        let (left, top) = area.get_base_pixel();
        area.draw(&Text::new(*name, (x - left, y - top + 8), style.clone()))?;
    }
    Ok(())
}
