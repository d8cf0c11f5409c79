//! Weights move between this crate's module, `burn::nn`'s and PyTorch's names.

use crate::{
    device,
    random::Random,
    values::{Values, exact},
};
use burn::{
    module::Module,
    nn,
    store::{
        BurnToPyTorchAdapter, ModuleRecord, ModuleSnapshot, ModuleStore, PyTorchToBurnAdapter,
        SafetensorsStore,
    },
    tensor::{DType, Device, Tensor},
};
use burn_fused::nn::{RmsNorm, RmsNormConfig};

const WIDTH: usize = 6;

#[derive(Module, Debug)]
struct Own {
    norm: RmsNorm,
}

#[derive(Module, Debug)]
struct Burns {
    norm: nn::RmsNorm,
}

fn own(device: &Device) -> Own {
    Own { norm: RmsNormConfig::new(WIDTH).init(device) }
}

fn burns(device: &Device) -> Burns {
    Burns { norm: nn::RmsNormConfig::new(WIDTH).init(device) }
}

/// Weights that no initializer gives.
fn weights(test: &str) -> Values {
    Values::normal(&[WIDTH], DType::F32, &mut Random::of(test))
}

fn gamma(tensor: Tensor<1>) -> Vec<f64> {
    exact(&tensor.into_data())
}

fn own_with(weights: &Values, device: &Device) -> Own {
    let mut model = own(device);
    model.norm.gamma = model.norm.gamma.map(|_| weights.tensor(device));
    model
}

fn burns_with(weights: &Values, device: &Device) -> Burns {
    let mut model = burns(device);
    model.norm.gamma = model.norm.gamma.map(|_| weights.tensor(device));
    model
}

#[test]
fn records_load_both_ways() {
    let Some(device) = device::open() else { return };
    let weights = weights("records_load_both_ways");
    let stored =
        |record: ModuleRecord| ModuleRecord::from_bytes(record.into_bytes().unwrap()).unwrap();
    let record = stored(burns_with(&weights, &device).into_record());
    let loaded = own(&device).load_record(record);
    assert_eq!(gamma(loaded.norm.gamma.val()), weights.data);

    let record = stored(own_with(&weights, &device).into_record());
    let loaded = burns(&device).load_record(record);
    assert_eq!(gamma(loaded.norm.gamma.val()), weights.data);
}

/// Saved under PyTorch's names; the bytes, and the names in them.
fn saved(model: &Own) -> (Vec<u8>, Vec<String>) {
    let mut store = SafetensorsStore::from_bytes(None).with_to_adapter(BurnToPyTorchAdapter);
    model.save_into(&mut store).unwrap();
    let bytes = store.get_bytes().unwrap();
    let names = SafetensorsStore::from_bytes(Some(bytes.clone())).keys().unwrap();
    (bytes, names)
}

#[test]
fn pytorch_calls_gamma_weight() {
    let Some(device) = device::open() else { return };
    let weights = weights("pytorch_calls_gamma_weight");
    let (bytes, names) = saved(&own_with(&weights, &device));
    assert_eq!(names, ["norm.weight"]);
    let store = || {
        SafetensorsStore::from_bytes(Some(bytes.clone())).with_from_adapter(PyTorchToBurnAdapter)
    };

    let mut loaded = own(&device);
    let result = loaded.load_from(&mut store()).unwrap();
    assert!(result.is_success(), "{result}");
    assert_eq!(gamma(loaded.norm.gamma.val()), weights.data);

    let mut loaded = burns(&device);
    let result = loaded.load_from(&mut store()).unwrap();
    assert!(result.is_success(), "{result}");
    assert_eq!(gamma(loaded.norm.gamma.val()), weights.data);
}

#[test]
fn safetensors_keep_burns_names() {
    let Some(device) = device::open() else { return };
    let weights = weights("safetensors_keep_burns_names");
    let mut store = SafetensorsStore::from_bytes(None);
    burns_with(&weights, &device).save_into(&mut store).unwrap();
    let mut store = SafetensorsStore::from_bytes(Some(store.get_bytes().unwrap()));
    let mut loaded = own(&device);
    loaded.load_from(&mut store).unwrap();
    assert_eq!(gamma(loaded.norm.gamma.val()), weights.data);
}
