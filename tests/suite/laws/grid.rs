//! Values and gradients over sizes and element types, against the oracle.

use crate::{
    compare::Report,
    device,
    op::{Data, Op, dtypes},
    pairs,
    random::Random,
    values::Values,
};
use burn::tensor::{DType, Device};

/// Row lengths: around powers of two, planes, blocks, and those that broke other projects' kernels.
pub const COLUMNS: [usize; 22] = [
    1, 2, 3, 31, 32, 33, 255, 256, 257, 768, 769, 781, 1023, 1024, 1025, 3584, 4095, 4096, 5120,
    8192, 65_537, 70_000,
];

/// Row counts: none, fewer than any grid, odd, past 2¹⁶.
pub const ROWS: [usize; 9] = [0, 1, 2, 3, 31, 257, 1025, 57_345, 70_000];

/// The most elements of a case.
fn limit() -> usize {
    if device::is_fast() { 1 << 25 } else { 1 << 20 }
}

/// Runs and checks random inputs of each shape.
struct Grid<O> {
    op: O,
    device: Device,
    random: Random,
    report: Report,
}

impl<O: Op> Grid<O> {
    fn open(op: O, test: &str) -> Option<Self> {
        let device = device::open()?;
        Some(Self { op, device, random: Random::of(test), report: Report::default() })
    }

    fn check(&mut self, shape: &[usize], axes: usize, dtype: DType, parameters: Option<DType>) {
        let data = Data::random::<O>(shape, axes, dtype, parameters, &mut self.random);
        let outcome = data.run(self.op, &self.device);
        data.check(self.op, &outcome, &mut self.report, "");
    }

    /// Terms of one sign and nearly one size: rounding errors of partial sums add up, not out.
    fn check_coherent(&mut self, shape: &[usize]) {
        let types = (DType::F32, Some(DType::F32));
        let mut data = Data::random::<O>(shape, 1, types.0, types.1, &mut self.random);
        for tensor in [&mut data.x, &mut data.dy] {
            *tensor = Values::of(shape, DType::F32, |_| 1.0 + 0.01 * self.random.normal());
        }
        let outcome = data.run(self.op, &self.device);
        data.check(self.op, &outcome, &mut self.report, "of one sign");
    }
}

/// Every row length in every type, in a few rows.
pub fn every_row_length<O: Op>(op: O) {
    let Some(mut grid) = Grid::open(op, "every_row_length") else { return };
    let dtypes = dtypes::<O>(&grid.device);
    let sizes = [dtypes.len(), COLUMNS.len(), 2];
    for [dtype, columns, given] in pairs::combinations(sizes, &mut grid.random) {
        let (dtype, columns) = (dtypes[dtype], COLUMNS[columns]);
        let (rows, parameters) = [(3, Some(dtype)), (2, None)][given];
        grid.check(&[rows, columns], 1, dtype, parameters);
    }
    grid.report.finish();
}

/// Every row count, with some lengths.
pub fn every_row_count<O: Op>(op: O) {
    let Some(mut grid) = Grid::open(op, "every_row_count") else { return };
    let (dtypes, lengths) = (dtypes::<O>(&grid.device), [1, 33, 64, 257, 1024]);
    let sizes = [dtypes.len(), ROWS.len(), lengths.len()];
    for [dtype, rows, columns] in pairs::combinations(sizes, &mut grid.random) {
        let (dtype, rows, columns) = (dtypes[dtype], ROWS[rows], lengths[columns]);
        if rows * columns <= limit() {
            grid.check(&[rows, columns], 1, dtype, Some(dtype));
        }
    }
    grid.report.finish();
}

/// The product of lengths and counts: whole on a fast device, half of it elsewhere.
pub fn lengths_and_counts<O: Op>(op: O) {
    let Some(mut grid) = Grid::open(op, "lengths_and_counts") else { return };
    for (i, columns) in COLUMNS.into_iter().enumerate() {
        for (j, rows) in ROWS.into_iter().enumerate() {
            let chosen = pairs::all() || (i + j) % 2 == 0;
            if chosen && rows * columns <= limit() {
                grid.check(&[rows, columns], 1, DType::F32, Some(DType::F32));
            }
        }
    }
    grid.report.finish();
}

/// Ranks 1 to 4, with one to three dimensions to a row, with parameters and without.
pub fn ranks<O: Op>(op: O) {
    let Some(mut grid) = Grid::open(op, "ranks") else { return };
    let shapes: [(&[usize], usize); 12] = [
        (&[40], 1),
        (&[1], 1),
        (&[7, 40], 1),
        (&[7, 40], 2),
        (&[5, 6, 33], 1),
        (&[5, 6, 33], 2),
        (&[5, 6, 33], 3),
        (&[1, 3, 64], 2),
        (&[2, 3, 5, 96], 1),
        (&[2, 3, 5, 96], 2),
        (&[3, 0, 2520], 1),
        (&[2, 3, 0, 8], 1),
    ];
    let shapes: Vec<_> = shapes.into_iter().filter(|(_, axes)| *axes <= O::AXES).collect();
    let dtypes = dtypes::<O>(&grid.device);
    let sizes = [shapes.len(), dtypes.len(), 2];
    for [shape, dtype, given] in pairs::combinations(sizes, &mut grid.random) {
        let ((shape, axes), dtype) = (shapes[shape], dtypes[dtype]);
        grid.check(shape, axes, dtype, [Some(dtype), None][given]);
    }
    grid.report.finish();
}

/// Parameters in another type than the input.
pub fn mixed_types<O: Op>(op: O) {
    let Some(mut grid) = Grid::open(op, "mixed_types") else { return };
    let (dtypes, lengths) = (dtypes::<O>(&grid.device), [3, 64, 257, 1025, 2048, 8192, 16_384]);
    let sizes = [dtypes.len(), dtypes.len(), lengths.len()];
    for [dtype, parameters, columns] in pairs::combinations(sizes, &mut grid.random) {
        let shape = [13, lengths[columns]];
        grid.check(&shape, 1, dtypes[dtype], Some(dtypes[parameters]));
    }
    grid.report.finish();
}

/// Shapes on which other projects' sums over rows went wrong.
pub fn sums_over_rows<O: Op>(op: O) {
    let Some(mut grid) = Grid::open(op, "sums_over_rows") else { return };
    let dtypes = dtypes::<O>(&grid.device);
    for shape in [[1, 4], [1025, 7], [2047, 63], [4099, 33], [57_601, 24], [65_537, 16]] {
        grid.check(&shape, 1, DType::F32, Some(DType::F32));
    }
    for dtype in dtypes.into_iter().filter(|dtype| dtype.size() == 2) {
        for shape in [[32_768, 32], [32_769, 17], [70_001, 8]] {
            grid.check(&shape, 1, dtype, Some(dtype));
            grid.check(&shape, 1, dtype, Some(DType::F32));
        }
    }
    grid.check(&[1, 1_000_000], 1, DType::F32, Some(DType::F32));
    for shape in [[32_768, 33], [2049, 512]] {
        grid.check_coherent(&shape);
    }
    grid.report.finish();
}
