//! Bars of the means: a group for each op, in it a bar for each peer, side by side for the element types.

use super::summary::{OPS, PEERS, Summary};
use plotters::{
    coord::Shift,
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

// In pixels.
const LABELS: i32 = 240;
const PANEL: i32 = 340;
const HEAD: i32 = 104;
const FOOT: i32 = 30;
const BAR: i32 = 11;
const GAP: i32 = 14;
/// Of a bar that is the whole copy bandwidth.
const WHOLE: i32 = 270;

const GREY: RGBColor = RGBColor(215, 215, 215);

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the ops that were timed beside others, or all where none was.
pub fn draw(path: &Path, title: &str, summary: &Summary) -> Result {
    let beside_others = OPS.iter().any(|(op, _)| summary.peers(op).len() > 1);
    let fewest = if beside_others { 2 } else { 1 };
    let ops = OPS.into_iter().filter(|(op, _)| summary.peers(op).len() >= fewest);
    let groups: Vec<Group> = ops.map(|(op, name)| Group::of(op, name, summary)).collect();
    let dtypes = summary.dtypes();
    let bottom = HEAD + groups.iter().map(Group::height).sum::<i32>();
    let (width, height) = (LABELS + PANEL * dtypes.len() as i32, bottom + FOOT);
    let area = SVGBackend::new(path, (width as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    text(&area, title, (width / 2, 18), 19, HPos::Center)?;
    let what = "share of the copy bandwidth, geometric means over shapes: longer is faster";
    text(&area, what, (width / 2, 40), 14, HPos::Center)?;
    draw_legend(&area, summary, width)?;
    for (panel, dtype) in dtypes.iter().enumerate() {
        let left = LABELS + PANEL * panel as i32;
        text(&area, dtype, (left + WHOLE / 2, 86), 16, HPos::Center)?;
        for quarter in 0..=4 {
            let x = left + WHOLE * quarter / 4;
            area.draw(&PathElement::new([(x, HEAD - 4), (x, bottom)], GREY))?;
            text(&area, &format!("{} %", 25 * quarter), (x, bottom + 12), 12, HPos::Center)?;
        }
    }
    let mut top = HEAD;
    for group in &groups {
        group.draw(&area, top, &dtypes, summary)?;
        top += group.height();
    }
    area.present()?;
    Ok(())
}

fn draw_legend(area: &Area, summary: &Summary, width: i32) -> Result {
    let shown: Vec<_> = (0..PEERS.len()).filter(|peer| summary.has_peer(PEERS[*peer].0)).collect();
    let step = 140;
    let mut x = (width - step * shown.len() as i32) / 2;
    for peer in shown {
        area.draw(&Rectangle::new([(x, 56), (x + 14, 70)], COLORS[peer].filled()))?;
        text(area, PEERS[peer].1, (x + 20, 63), 14, HPos::Left)?;
        x += step;
    }
    Ok(())
}

/// An op's bars.
struct Group<'a> {
    op: &'a str,
    name: &'a str,
    shapes: String,
    /// Those that any type has, by their places in [`PEERS`].
    peers: Vec<usize>,
}

impl<'a> Group<'a> {
    fn of(op: &'a str, name: &'a str, summary: &Summary) -> Self {
        let shapes = summary.dtypes().into_iter().map(|dtype| summary.shapes(op, dtype));
        let shapes = shapes.max().unwrap_or(0);
        let plural = if shapes == 1 { "shape" } else { "shapes" };
        Self { op, name, shapes: format!("{shapes} {plural}"), peers: summary.peers(op) }
    }

    fn height(&self) -> i32 {
        GAP + BAR * self.peers.len() as i32
    }

    fn draw(&self, area: &Area, top: i32, dtypes: &[&str], summary: &Summary) -> Result {
        let middle = top + BAR * self.peers.len() as i32 / 2;
        text(area, self.name, (LABELS - 10, middle - 6), 14, HPos::Right)?;
        text(area, &self.shapes, (LABELS - 10, middle + 8), 11, HPos::Right)?;
        for (panel, dtype) in dtypes.iter().enumerate() {
            let left = LABELS + PANEL * panel as i32;
            for (place, peer) in self.peers.iter().enumerate() {
                let Some(share) = summary.share(PEERS[*peer].0, self.op, dtype) else { continue };
                let y = top + BAR * place as i32;
                let right = left + (share * f64::from(WHOLE)) as i32;
                area.draw(&Rectangle::new(
                    [(left, y + 1), (right, y + BAR)],
                    COLORS[*peer].filled(),
                ))?;
                let figure = format!("{:.0}", 100.0 * share);
                text(area, &figure, (right + 4, y + BAR / 2 + 1), 11, HPos::Left)?;
            }
        }
        Ok(())
    }
}

fn text(area: &Area, text: &str, at: (i32, i32), size: i32, side: HPos) -> Result {
    let style = ("sans-serif", size).into_font().color(&BLACK).pos(Pos::new(side, VPos::Center));
    Ok(area.draw(&Text::new(text, at, style))?)
}
