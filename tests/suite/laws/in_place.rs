//! A buffer is written in place only where it has no other use: the result is right, and whoever
//! else holds the buffer finds it as it was.

use crate::{
    buffer::{Note, noted},
    compare::{Report, Verdict, same_bits},
    deliver::deliver,
    device,
    op::{Data, Op, Outcome, differentiate, dtypes},
    random::Random,
    values::Values,
};
use burn::tensor::{Device, Tensor, TensorData};

/// Runs `test` on inputs of each type and some shapes.
fn each<O: Op>(name: &str, test: impl Fn(&Data, &Device) -> Vec<Verdict>) {
    let Some(device) = device::open() else { return };
    let (mut random, mut report) = (Random::of(name), Report::default());
    for dtype in dtypes::<O>(&device) {
        for shape in [[3, 64], [37, 257], [2, 8193], [2, 40_001]] {
            let data = Data::random::<O>(&shape, 1, dtype, Some(dtype), &mut random);
            report.add(format!("{} {data}", O::NAME), test(&data, &device));
        }
    }
    report.finish();
}

/// A tensor's rows from the second on: a view of its buffer.
fn view(tensor: &Tensor<2>) -> Tensor<2> {
    tensor.clone().narrow(0, 1, tensor.dims()[0] - 1)
}

/// The same rows on the host.
fn rows_from_second(values: &Values) -> TensorData {
    let [rows, columns] = [values.shape[0], values.shape[1]];
    Values::new(&[rows - 1, columns], values.dtype, values.data[columns..].to_vec()).data()
}

/// What the op gives where everything is kept.
fn kept<O: Op>(op: O, data: &Data, device: &Device) -> TensorData {
    let x = data.x.tensor::<2>(device);
    let y = op.forward(x.clone(), data.parameters::<1>(device));
    drop(x);
    y.into_data()
}

/// x moved, where nothing holds its buffer, a clone does, or a view; and x itself as a view.
pub fn untracked<O: Op>(op: O) {
    each::<O>("untracked", |data, device| {
        let expected = kept(op, data, device);
        let run = |x: Tensor<2>| op.forward(x, data.parameters::<1>(device)).into_data();
        let x = || data.x.tensor::<2>(device);
        let mut verdicts = vec![same_bits("y of an x of its own", &expected, &run(x()))];

        let moved = x();
        let clone = moved.clone();
        verdicts.push(same_bits("y of a cloned x", &expected, &run(moved)));
        verdicts.push(same_bits("the clone", &data.x.data(), &clone.into_data()));

        let moved = x();
        let of_rows = view(&moved);
        verdicts.push(same_bits("y of a viewed x", &expected, &run(moved)));
        let rows = rows_from_second(&data.x);
        verdicts.push(same_bits("the view", &rows, &of_rows.into_data()));

        // Of rows whose source is gone, and of rows whose source stays.
        let y = Values::returned(&expected);
        let source = x();
        verdicts.push(same_bits("y of a view", &rows_from_second(&y), &run(view(&source))));
        verdicts.push(same_bits("the source", &data.x.data(), &source.clone().into_data()));
        let of_rows = view(&source);
        drop(source);
        verdicts.push(same_bits("y of the last view", &rows_from_second(&y), &run(of_rows)));
        verdicts
    });
}

/// x that another op of the graph needs again: w's gradient of `x·w` is x times that of the product.
pub fn needed_by_the_graph<O: Op>(op: O) {
    each::<O>("needed_by_the_graph", |data, device| {
        let x = data.x.tensor::<2>(&device.clone().autodiff());
        let w = Values::of(&data.x.shape, data.x.dtype, |_| 1.0);
        let w = w.tensor::<2>(device).autodiff().require_grad();
        let product = x.clone() * w.clone();
        let parameters = data.parameters::<1>(device);
        let y = op.forward(x, parameters);
        let ones = Values::of(&data.x.shape, data.x.dtype, |_| 1.0).tensor::<2>(device);
        let gradients = deliver(product, ones).backward();
        let dw = w.grad(&gradients).expect("w is tracked");
        vec![
            same_bits("y", &kept(op, data, device), &y.into_data()),
            same_bits("dw", &data.x.data(), &dw.into_data()),
        ]
    });
}

/// x moved and untracked: the parameters' gradients need it all the same.
pub fn needed_by_the_parameters<O: Op>(op: O) {
    if O::PARAMETERS.is_empty() {
        return println!("skipped: {} has no parameters", O::NAME);
    }
    each::<O>("needed_by_the_parameters", |data, device| {
        let tracked = |p: Option<Tensor<1>>| p.map(|p| p.autodiff().require_grad());
        let all = data.run(op, device);
        let parameters: Vec<_> = data.parameters(device).into_iter().map(tracked).collect();
        let y = op.forward(data.x.tensor::<2>(device), parameters.clone());
        let gradients = deliver(y.clone(), data.dy.tensor(device)).backward();
        let mut verdicts = vec![same_bits("y", &all.y, &y.into_data())];
        for (p, expected) in parameters.iter().flatten().zip(all.parameters.iter().flatten()) {
            let found = p.grad(&gradients).expect("it is tracked").into_data();
            verdicts.push(same_bits("a parameter's gradient", expected, &found));
        }
        verdicts
    });
}

/// dy that a clone or a view holds; and an output that moved into an op that could overwrite it.
pub fn gradients<O: Op>(op: O) {
    each::<O>("gradients", |data, device| {
        let expected = data.run(op, device);
        let run = |dy: Tensor<2>| {
            differentiate(op, data.x.tensor::<2>(device), data.parameters::<1>(device), dy)
        };
        let dy = data.dy.tensor::<2>(device);
        let mut verdicts = run(dy.clone()).same_bits::<O>(&expected);
        verdicts.push(same_bits("dy", &data.dy.data(), &dy.into_data()));

        let dy = data.dy.tensor::<2>(device);
        let of_rows = view(&dy);
        verdicts.extend(run(dy).same_bits::<O>(&expected));
        verdicts.push(same_bits("dy's view", &rows_from_second(&data.dy), &of_rows.into_data()));

        // Negated twice the gradient is what it was, and so is the output.
        let x = data.x.tensor::<2>(device).autodiff().require_grad();
        let negated = op.forward(x.clone(), data.parameters::<1>(device)).neg().neg();
        let gradients = deliver(negated.clone(), data.dy.tensor(device)).backward();
        let dx = x.grad(&gradients).expect("x is tracked").into_data();
        let whole = expected.dx.as_ref().expect("x is tracked");
        verdicts.push(same_bits("y moved on", &expected.y, &negated.into_data()));
        verdicts.push(same_bits("dx of a y that moved on", whole, &dx));
        verdicts
    });
}

/// One tensor as x and as dy; and, of one row, as x and as each parameter.
pub fn one_buffer_for_all<O: Op>(op: O) {
    each::<O>("one_buffer_for_all", |data, device| {
        let x = data.x.tensor::<2>(device);
        let shared = differentiate(op, x.clone(), data.parameters::<1>(device), x);
        let expected = Data { dy: data.x.clone(), ..data.clone() }.run(op, device);
        let mut verdicts = shared.same_bits::<O>(&expected);

        let columns = data.columns();
        let row = Values::new(&[columns], data.x.dtype, data.x.data[..columns].to_vec());
        let parameters = O::PARAMETERS.iter().map(|_| Some(row.clone())).collect();
        let apart = Data { x: row.clone(), dy: row.clone(), parameters, axes: 1 };
        let x = row.tensor::<1>(device);
        let clones = |x: &Tensor<1>| O::PARAMETERS.iter().map(|_| Some(x.clone())).collect();
        let shared: Outcome = differentiate::<O, 1, 1>(op, x.clone(), clones(&x), x.clone());
        verdicts.extend(shared.same_bits::<O>(&apart.run(op, device)));
        let parameters = clones(&x);
        let y = op.forward::<1, 1>(x, parameters).into_data();
        verdicts.push(same_bits("y of a row that is its own parameter", &shared.y, &y));
        verdicts
    });
}

/// y lies where an untracked x of its own lay, and dx where dy did.
pub fn buffers_are_reused<O: Op>(op: O) {
    let Some(device) = device::open() else { return };
    if device::name() == "flex" {
        return println!("skipped: there are no kernels for flex");
    }
    let mut random = Random::of("buffers_are_reused");
    for dtype in dtypes::<O>(&device) {
        for shape in [[3, 64], [37, 257], [2, 8193], [2, 40_001]] {
            let data = Data::random::<O>(&shape, 1, dtype, Some(dtype), &mut random);
            let (x, before) = noted(data.x.tensor::<2>(&device));
            // Until it has arrived the upload holds the buffer as well.
            device.sync().unwrap();
            let (y, after) = noted(op.forward(x, data.parameters::<1>(&device)));
            y.into_data();
            assert_same(before, after, &format!("y and x of {} {data}", O::NAME));

            let (dy, before) = noted(data.dy.tensor::<2>(&device));
            device.sync().unwrap();
            let x = data.x.tensor::<2>(&device).autodiff().require_grad();
            let y = op.forward(x.clone(), data.parameters::<1>(&device));
            let gradients = deliver(y, dy).backward();
            let (dx, after) = noted(x.grad(&gradients).expect("x is tracked"));
            dx.into_data();
            assert_same(before, after, &format!("dx and dy of {} {data}", O::NAME));
        }
    }
}

fn assert_same(before: Note, after: Note, case: &str) {
    let [before, after] = [before, after].map(|note| *note.lock().unwrap());
    assert!(before.is_some(), "no buffer was seen: {case}");
    assert_eq!(before, after, "the buffers of {case}");
}
