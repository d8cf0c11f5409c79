//! Argument checks shared by the ops. They read metadata only.

use super::{Needs, computes_in, holds};
use crate::FusedError;
use burn::tensor::{DType, Device, Int, Tensor};

/// Collects the checks of one call under the name of its function.
pub(crate) struct Check<'a, const D: usize> {
    op: &'static str,
    /// What the function calls `x`.
    input: &'static str,
    x: &'a Tensor<D>,
    device: Device,
    needs: Needs,
}

impl<'a, const D: usize> Check<'a, D> {
    pub(crate) fn new(
        op: &'static str,
        x: &'a Tensor<D>,
        needs: Needs,
    ) -> Result<Self, FusedError> {
        Self::of(op, "x", x, needs)
    }

    pub(crate) fn of(
        op: &'static str,
        input: &'static str,
        x: &'a Tensor<D>,
        needs: Needs,
    ) -> Result<Self, FusedError> {
        let check = Self { op, input, x, device: x.device(), needs };
        check.float(input, x.dtype())?;
        check.supported(input, x.dtype())?;
        Ok(check)
    }

    /// The input's element type.
    pub(crate) fn dtype(&self) -> DType {
        self.x.dtype()
    }

    fn float(&self, argument: &'static str, found: DType) -> Result<(), FusedError> {
        match found {
            DType::F64 | DType::F32 | DType::Flex32 | DType::F16 | DType::BF16 => Ok(()),
            _ => Err(FusedError::DType { op: self.op, argument, found }),
        }
    }

    fn supported(&self, argument: &'static str, found: DType) -> Result<(), FusedError> {
        if computes_in(self.device.as_dispatch(), found, self.needs) {
            Ok(())
        } else {
            self.unsupported(argument, found)
        }
    }

    fn unsupported(&self, argument: &'static str, found: DType) -> Result<(), FusedError> {
        let device = format!("{:?}", self.device);
        Err(FusedError::Unsupported { op: self.op, argument, device, found })
    }

    /// The last `axes` dimensions can be normalised: there are that many, and none is empty.
    pub(crate) fn rows(&self, argument: &'static str, axes: usize) -> Result<(), FusedError> {
        if axes == 0 || axes > D {
            return Err(FusedError::Rank { op: self.op, argument, max: D, found: axes });
        }
        let shape = self.x.dims();
        if shape[D - axes..].contains(&0) {
            return Err(FusedError::EmptyRows {
                op: self.op,
                argument: self.input,
                found: shape.to_vec(),
            });
        }
        Ok(())
    }

    /// Those of `parameters` that there are fit the input's last `K` dimensions, of which the last `axes`, or
    /// all, form rows.
    pub(crate) fn parameters<const K: usize, const N: usize>(
        &self,
        parameters: [(&'static str, Option<&Tensor<K>>); N],
        axes: Option<usize>,
    ) -> Result<(), FusedError> {
        let given = || parameters.iter().filter_map(|(name, p)| Some((*name, (*p)?)));
        let first = given().next().map_or("gamma", |(name, _)| name);
        if K == 0 || K > D {
            return Err(FusedError::Rank { op: self.op, argument: first, max: D, found: K });
        }
        if let Some(found) = axes.filter(|axes| *axes == 0 || *axes > K) {
            return Err(FusedError::Axes { op: self.op, max: K, found });
        }
        self.rows(first, axes.unwrap_or(K))?;
        given().try_for_each(|(name, parameter)| self.parameter(name, parameter))
    }

    /// `parameter` has the shape of the input's last `K` dimensions, a float type and its device.
    fn parameter<const K: usize>(
        &self,
        argument: &'static str,
        parameter: &Tensor<K>,
    ) -> Result<(), FusedError> {
        let (expected, found) = (self.x.dims(), parameter.dims());
        self.placed(argument, &expected[D - K..], &found, parameter.device())?;
        self.computed(argument, parameter.dtype())
    }

    /// An argument's element type is a float one that the device computes in.
    pub(crate) fn computed(&self, argument: &'static str, found: DType) -> Result<(), FusedError> {
        self.float(argument, found)?;
        // The device has been asked about the input's type.
        if found == self.x.dtype() { Ok(()) } else { self.supported(argument, found) }
    }

    /// A float type that no tensor has yet is one that the device computes in.
    pub(crate) fn output(&self, argument: &'static str, found: DType) -> Result<(), FusedError> {
        self.computed(argument, found)?;
        if found == self.dtype() || holds(&self.device, found) {
            Ok(())
        } else {
            self.unsupported(argument, found)
        }
    }

    /// An argument has the input's shape, but for dimensions of 1, and its device.
    pub(crate) fn broadcasts(
        &self,
        argument: &'static str,
        found: &[usize],
        device: Device,
    ) -> Result<(), FusedError> {
        let (op, expected) = (self.op, self.x.dims().to_vec());
        if expected.iter().zip(found).any(|(expected, found)| found != expected && *found != 1) {
            return Err(FusedError::Broadcast { op, argument, expected, found: found.to_vec() });
        }
        self.beside(argument, device)
    }

    /// There is a target for each of the input's first dimension, on its device, in a type that it computes in.
    pub(crate) fn targets(&self, targets: &Tensor<1, Int>) -> Result<(), FusedError> {
        self.placed("targets", &self.x.dims()[..1], &targets.dims(), targets.device())?;
        self.supported("targets", targets.dtype())
    }

    /// `other` has the input's shape, element type and device.
    pub(crate) fn like_x(
        &self,
        argument: &'static str,
        other: &Tensor<D>,
    ) -> Result<(), FusedError> {
        let (op, expected, found) = (self.op, self.x.dtype(), other.dtype());
        if expected != found {
            return Err(FusedError::Mixed { op, argument, expected, found });
        }
        self.placed(argument, &self.x.dims(), &other.dims(), other.device())
    }

    /// An argument has the shape that is expected and lies on the input's device.
    fn placed(
        &self,
        argument: &'static str,
        expected: &[usize],
        found: &[usize],
        device: Device,
    ) -> Result<(), FusedError> {
        if expected != found {
            return Err(FusedError::Shape {
                op: self.op,
                argument,
                expected: expected.to_vec(),
                found: found.to_vec(),
            });
        }
        self.beside(argument, device)
    }

    fn beside(&self, argument: &'static str, device: Device) -> Result<(), FusedError> {
        if device != self.device {
            return Err(FusedError::Device {
                op: self.op,
                argument,
                expected: format!("{:?}", self.device),
                found: format!("{device:?}"),
            });
        }
        Ok(())
    }

    pub(crate) fn epsilon(&self, found: f64) -> Result<(), FusedError> {
        if found.is_finite() && found >= 0.0 {
            Ok(())
        } else {
            Err(FusedError::Epsilon { op: self.op, found })
        }
    }

    /// The dimension `found`, which counts from the end where it is negative.
    pub(crate) fn dim(&self, found: isize) -> Result<usize, FusedError> {
        let dim = if found < 0 { found.checked_add_unsigned(D) } else { Some(found) };
        dim.and_then(|dim| usize::try_from(dim).ok())
            .filter(|dim| *dim < D)
            .ok_or(FusedError::Dim { op: self.op, rank: D, found })
    }
}
