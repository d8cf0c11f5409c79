use super::{LogSoftmax, Softmax};
use crate::{
    device,
    errors::{not_float, quantise, refuses},
    op::Checked,
};
use burn::tensor::Tensor;
use burn_fused::FusedError;

fn no_such_dim<O: Checked>(op: impl Fn(isize) -> O) {
    fn refused<O: Checked, const D: usize>(op: &impl Fn(isize) -> O) {
        let Some(device) = device::open() else { return };
        let x = Tensor::<D>::ones([2; D], &device);
        let rank = D as isize;
        for found in [rank, rank + 1, -rank - 1, isize::MAX, isize::MIN, isize::MIN + rank] {
            let error = FusedError::Dim { op: O::NAME, rank: D, found };
            let message = format!("`dim` must be from -{D} to {D} - 1, found {found}");
            refuses::<_, D, 1>(op(found), x.clone(), vec![], error, &message);
        }
        for dim in -rank..rank {
            assert!(op(dim).attempt::<D, 1>(x.clone(), vec![]).is_ok(), "{dim} of {rank}");
        }
    }
    refused::<O, 1>(&op);
    refused::<O, 2>(&op);
    refused::<O, 3>(&op);
    refused::<O, 4>(&op);
}

fn quantised<O: Checked>(op: O) {
    let Some(device) = device::open() else { return };
    let Some(quantised) = quantise(Tensor::ones([32], &device)) else { return };
    let (error, message) = not_float::<O>("x", &quantised);
    refuses::<_, 1, 1>(op, quantised, vec![], error, &message);
}

#[test]
fn dims() {
    no_such_dim(Softmax);
    no_such_dim(LogSoftmax);
}

#[test]
fn quantised_input() {
    quantised(Softmax(-1));
    quantised(LogSoftmax(-1));
}
