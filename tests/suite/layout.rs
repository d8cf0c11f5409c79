//! Ways for a tensor to lie in memory.

use crate::{
    random::Random,
    values::{Values, round},
};
use burn::tensor::{DType, Device, Slice, Tensor};

/// How a tensor of three dimensions lies in another one, its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    Contiguous,
    /// A range of the source's dimension `dim`, with that many elements before and after it.
    Slice {
        dim: usize,
        before: usize,
        after: usize,
    },
    /// Every `step`-th of the source's dimension `dim`.
    Step {
        dim: usize,
        step: usize,
    },
    /// The source's dimensions in this order.
    Permuted([usize; 3]),
    /// One element of the source for all of the dimension.
    Expanded(usize),
    /// Rows that overlap: each starts `step` elements after the one before. With an odd step no
    /// vector of a row is aligned but by chance.
    Windows {
        step: usize,
    },
    /// Rows that start at multiples of 64 elements, with as much room behind the last one.
    Apart,
}

/// The layouts of the tests that try each. Offsets of 64 elements are views on CubeCL runtimes;
/// at smaller ones Burn copies.
pub const LAYOUTS: [Layout; 17] = [
    Layout::Contiguous,
    Layout::Slice { dim: 0, before: 1, after: 0 },
    Layout::Slice { dim: 0, before: 0, after: 2 },
    Layout::Slice { dim: 1, before: 1, after: 1 },
    Layout::Slice { dim: 2, before: 64, after: 64 },
    Layout::Slice { dim: 2, before: 1, after: 2 },
    Layout::Step { dim: 0, step: 2 },
    Layout::Step { dim: 2, step: 2 },
    Layout::Permuted([1, 0, 2]),
    Layout::Permuted([0, 2, 1]),
    Layout::Permuted([2, 1, 0]),
    Layout::Expanded(0),
    Layout::Expanded(1),
    Layout::Expanded(2),
    Layout::Windows { step: 1 },
    Layout::Windows { step: 6 },
    Layout::Apart,
];

/// Elements from one row of `columns` elements to the next, in [`Layout::Apart`].
fn apart(columns: usize) -> usize {
    columns.next_multiple_of(64)
}

/// A source, and where in it the tensor is.
struct Strided {
    source: [usize; 3],
    offset: usize,
    strides: [usize; 3],
}

impl Layout {
    fn strided(self, shape: [usize; 3]) -> Strided {
        let mut source = shape;
        match self {
            Self::Contiguous => {}
            Self::Slice { dim, before, after } => source[dim] += before + after,
            Self::Step { dim, step } => source[dim] *= step,
            Self::Permuted(axes) => (0..3).for_each(|i| source[axes[i]] = shape[i]),
            Self::Expanded(dim) => source[dim] = 1,
            Self::Windows { step } => {
                let [blocks, rows, columns] = shape;
                source = [blocks, rows.saturating_sub(1) * step + columns, 1];
            }
            Self::Apart => source = [shape[0] * shape[1] * apart(shape[2]) + shape[2], 1, 1],
        }
        let dense = [source[1] * source[2], source[2], 1];
        let (mut offset, mut strides) = (0, dense);
        match self {
            Self::Contiguous => {}
            Self::Slice { dim, before, .. } => offset = before * dense[dim],
            Self::Step { dim, step } => strides[dim] *= step,
            Self::Permuted(axes) => strides = axes.map(|axis| dense[axis]),
            Self::Expanded(dim) => strides[dim] = 0,
            Self::Windows { step } => strides = [source[1], step, 1],
            Self::Apart => strides = [shape[1] * apart(shape[2]), apart(shape[2]), 1],
        }
        Strided { source, offset, strides }
    }

    /// The tensor that lies so in `source`.
    fn view(self, source: Tensor<3>, shape: [usize; 3]) -> Tensor<3> {
        let all = shape.map(|size| Slice::from(0..size as isize));
        match self {
            Self::Contiguous => source,
            Self::Slice { dim, before, .. } => source.narrow(dim, before, shape[dim]),
            Self::Step { dim, step } => {
                let mut slices = all;
                slices[dim] = Slice::new(0, None, step as isize);
                source.slice(slices)
            }
            Self::Permuted(axes) => source.permute(axes.map(|axis| axis as isize)),
            Self::Expanded(_) => source.expand(shape),
            Self::Windows { step } => {
                let [blocks, len, _] = source.dims();
                source.reshape([blocks, len]).unfold(1, shape[2], step)
            }
            Self::Apart => {
                let len = source.dims()[0];
                let rows: Tensor<2> = source.reshape([len]).unfold(0, shape[2], apart(shape[2]));
                rows.narrow(0, 0, shape[0] * shape[1]).reshape(shape)
            }
        }
    }

    /// Where in `source` a tensor that lies so has its elements, in their order.
    fn positions(self, shape: [usize; 3]) -> Vec<usize> {
        let Strided { offset, strides, .. } = self.strided(shape);
        let len = shape.iter().product();
        let mut positions = Vec::with_capacity(len);
        for i in 0..shape[0] {
            for j in 0..shape[1] {
                for k in 0..shape[2] {
                    positions.push(offset + i * strides[0] + j * strides[1] + k * strides[2]);
                }
            }
        }
        positions
    }
}

/// A tensor with its source.
#[derive(Debug, Clone)]
pub struct Laid {
    pub layout: Layout,
    /// NaN wherever the tensor has no element.
    pub source: Values,
    /// The tensor's values, dense.
    pub values: Values,
}

impl Laid {
    pub fn random(
        layout: Layout,
        shape: [usize; 3],
        dtype: DType,
        mut draw: impl FnMut(&mut Random) -> f64,
        random: &mut Random,
    ) -> Self {
        let positions = layout.positions(shape);
        let mut source = Values::of(&layout.strided(shape).source, dtype, |_| f64::NAN);
        for &position in &positions {
            source.data[position] = round(draw(random), dtype);
        }
        let data = positions.iter().map(|position| source.data[*position]).collect();
        Self { layout, values: Values::new(&shape, dtype, data), source }
    }

    pub fn shape(&self) -> [usize; 3] {
        self.values.shape.as_slice().try_into().expect("three dimensions")
    }

    /// The source on `device`, and the view of it.
    pub fn tensors(&self, device: &Device) -> (Tensor<3>, Tensor<3>) {
        let source = self.source.tensor::<3>(device);
        (source.clone(), self.layout.view(source, self.shape()))
    }
}
