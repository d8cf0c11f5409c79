//! What Burn's own tests expect of these ops (its crates burn-nn and burn-backend-tests 0.22).
//!
//! A printed value is right to half of its last decimal; that, and 1e-5 of the value for the
//! roundings of the f32 that it was printed from, is the bound.

use crate::{
    device,
    layer_norm::LayerNorm,
    op::{Op, differentiate},
    rms_norm::RmsNorm,
    softmax::{LogSoftmax, Softmax},
    values::{Values, exact},
};
use burn::tensor::{DType, Tensor, TensorData};

type Matrix = [[f64; 2]; 2];

#[track_caller]
fn assert_close(found: &[f64], expected: &[f64], decimal: f64) {
    assert_eq!(found.len(), expected.len());
    for (value, exact) in found.iter().zip(expected) {
        let bound = 0.5 * decimal + 1e-5 * exact.abs();
        assert!((value - exact).abs() <= bound, "expected {expected:?}, found {found:?}");
    }
}

/// A call on f32 rows, without parameters.
#[track_caller]
fn assert_published<O: Op>(op: O, columns: usize, x: &[f64], y: &[f64], decimal: f64) {
    let Some(device) = device::open() else { return };
    let x = Values::new(&[x.len() / columns, columns], DType::F32, x.to_vec());
    let none: Vec<Option<Tensor<1>>> = O::PARAMETERS.iter().map(|_| None).collect();
    let found = op.forward(x.tensor::<2>(&device), none);
    assert_close(&exact(&found.into_data()), y, decimal);
}

#[test]
fn rms_norm_of_nine() {
    let x = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let y = [0.0, 0.7746, 1.5492, 0.7348, 0.9798, 1.2247, 0.8514, 0.9933, 1.1352];
    assert_published(RmsNorm(1e-5), 3, &x, &y, 1e-4);
}

/// x is printed to as many decimals as y and is drawn, so it is off by as much: twice the bound.
#[test]
fn layer_norm_of_ten() {
    let x = [-0.6897, -2.7106, 2.2222, -1.0330, -0.8933, 1.1765, 0.0601, 1.5252, -0.3630, 0.6728];
    let y = [-0.4990, -1.9680, 1.6178, -0.7486, -0.6470, 0.8576, 0.0461, 1.1111, -0.2614, 0.4915];
    assert_published(LayerNorm(1e-5), 10, &x, &y, 2e-4);
    let y = [-0.4863, -1.9180, 1.5766, -0.7295, -0.6305, 0.8358, 0.0449, 1.0828, -0.2548, 0.4790];
    assert_published(LayerNorm(1e-1), 10, &x, &y, 2e-4);
}

#[test]
fn softmax_of_small_rows() {
    let y = [2.472623e-3, 0.9975274];
    assert_published(Softmax(1), 2, &[1.0, 7.0], &y, 1e-7);
    let y = [1.0, 1.125352e-7];
    assert_published(Softmax(1), 2, &[13.0, -3.0], &y, 1e-13);
    let y = [0.09003, 0.24473, 0.66524];
    assert_published(Softmax(1), 3, &[1.0, 2.0, 3.0], &y, 1e-5);
    let x = [-1.0, 0.0, 1.0, 2.0, 0.5, 0.5, 0.5, 0.5];
    let y = [0.03205860, 0.08714432, 0.23688284, 0.64391422, 0.25, 0.25, 0.25, 0.25];
    assert_published(Softmax(1), 4, &x, &y, 1e-8);
}

/// Rows of the transposed matrix (burn 4815): wrong on some backends.
#[test]
fn softmax_of_a_transposed_matrix() {
    let Some(device) = device::open() else { return };
    let x = Values::of(&[3, 4], DType::F32, |i| i as f64 + 1.0).tensor::<2>(&device);
    let y = burn_fused::softmax(x.transpose(), 1);
    let row = [3.2932e-4, 1.798e-2, 0.98169];
    assert_close(&exact(&y.into_data()), &[row; 4].concat(), 1e-5);
}

#[test]
fn log_softmax_of_small_rows() {
    let y = [-0.3132617, -1.3132617, -1.3132617, -0.3132617];
    assert_published(LogSoftmax(1), 2, &[1.0, 0.0, 0.0, 1.0], &y, 1e-7);
}

/// burn 315: −inf where the probability is too small for its type.
#[test]
fn log_softmax_of_large_logits() {
    let x = [
        -781.1664, -1043.7303, 890.2518, -1234.9999, -1622.5167, -2174.6855, -1304.8042,
        -1730.8314, -1072.6201, -1899.7662,
    ];
    // The others follow: the largest stands alone, so y is x less it.
    let y = x.map(|x| x - 890.2518);
    assert_close(&y[..2], &[-1671.4182, -1933.9822], 1e-4);
    assert_published(LogSoftmax(1), 10, &x, &y, 1e-4);
}

const T1: Matrix = [[0.0, 1.0], [3.0, 4.0]];
const T2: Matrix = [[6.0, 7.0], [9.0, 10.0]];

/// Here and not on the device: Burn would time candidates for a product, minutes on a CPU.
fn product(a: Matrix, b: Matrix) -> Matrix {
    [0, 1].map(|i| [0, 1].map(|j| a[i][0] * b[0][j] + a[i][1] * b[1][j]))
}

fn transposed(a: Matrix) -> Matrix {
    [0, 1].map(|i| [0, 1].map(|j| a[j][i]))
}

fn matrix(data: &TensorData) -> Matrix {
    let values = exact(data);
    [[values[0], values[1]], [values[2], values[3]]]
}

fn tensor(a: Matrix) -> Tensor<2> {
    let device = device::open().expect("the test has opened it");
    Values::new(&[2, 2], DType::F32, a.concat()).tensor(&device)
}

/// The gradients of `op(t1·t2, 1)·t2`, all ones at its end, in t1 and t2.
fn of_products<O: Op>(op: O) -> [Vec<f64>; 2] {
    let ones = [[1.0; 2]; 2];
    let dy = product(ones, transposed(T2));
    let outcome = differentiate::<O, 2, 1>(op, tensor(product(T1, T2)), vec![], tensor(dy));
    let dx = matrix(&outcome.dx.expect("x is tracked"));
    let (inner, outer) =
        (product(transposed(T1), dx), product(transposed(matrix(&outcome.y)), ones));
    let both = inner.concat().into_iter().zip(outer.concat());
    [product(dx, transposed(T2)).concat(), both.map(|(inner, outer)| inner + outer).collect()]
}

#[test]
fn softmax_between_products() {
    if device::open().is_none() {
        return;
    }
    let [dt1, dt2] = of_products(Softmax(1));
    // dy is [13, 19], so dx is within 1e-6 · 19; t2's rows take 13 and 19 times that into dt1, t1's
    // columns 4 times into dt2.
    assert_close(&dt1, &[1.179665, 1.179661, 0.005462, 0.005463], 3.6e-4);
    assert_close(&dt2, &[0.253469, 0.286237, 0.528630, 2.931664], 7.6e-5);
}

#[test]
fn log_softmax_between_products() {
    if device::open().is_none() {
        return;
    }
    let [dt1, dt2] = of_products(LogSoftmax(1));
    assert_close(&dt1, &[-4.3939, -4.3939, -12.9709, -12.9709], 1e-4);
    assert_close(&dt2, &[30.5984, -47.2267, 55.9631, -56.5914], 1e-4);
}

/// The gradients of `layer_norm(t1·t2)`, all ones at its end.
#[test]
fn layer_norm_of_a_product() {
    let Some(device) = device::open() else { return };
    let parameter = |value| Some(Values::of(&[2], DType::F32, |_| value).tensor::<1>(&device));
    let x = tensor(product(T1, T2));
    let parameters = vec![parameter(1.0), parameter(0.0)];
    let outcome = differentiate(LayerNorm(1e-5), x, parameters, tensor([[1.0; 2]; 2]));
    let [dgamma, dbeta] = [0, 1].map(|i| exact(outcome.parameters[i].as_ref().unwrap()));
    assert_close(&dgamma, &[-2.0, 2.0], 1e-4);
    assert_close(&dbeta, &[2.0, 2.0], 1e-4);
    let dx = matrix(&outcome.dx.expect("x is tracked"));
    assert_close(&product(dx, transposed(T2)).concat(), &[0.0; 4], 1e-4);
    assert_close(&product(transposed(T1), dx).concat(), &[0.0; 4], 1e-4);
}
