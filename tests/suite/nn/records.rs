//! Weights move between this crate's modules, `burn::nn`'s and PyTorch's names.

use super::{Norm, set};
use crate::{
    device,
    random::Random,
    values::{Values, exact},
};
use burn::{
    module::Module,
    store::{
        BurnToPyTorchAdapter, ModuleRecord, ModuleSnapshot, ModuleStore, PyTorchToBurnAdapter,
        SafetensorsStore,
    },
    tensor::{DType, Device},
};

pub const WIDTH: usize = 6;

/// A norm inside a model, so that its weights' names have a path.
#[derive(Module, Debug)]
struct Model<N: Module> {
    norm: N,
}

/// This crate's module and Burn's, both of `WIDTH`.
#[derive(Debug, Clone, Copy)]
pub struct Pair<A, B> {
    pub own: fn(&Device) -> A,
    pub burns: fn(&Device) -> B,
}

impl<A: Norm, B: Norm> Pair<A, B> {
    fn own(&self, device: &Device) -> Model<A> {
        Model { norm: (self.own)(device) }
    }

    fn burns(&self, device: &Device) -> Model<B> {
        Model { norm: (self.burns)(device) }
    }

    fn own_with(&self, weights: &[Values], device: &Device) -> Model<A> {
        let mut model = self.own(device);
        set(&mut model.norm, weights, device);
        model
    }

    fn burns_with(&self, weights: &[Values], device: &Device) -> Model<B> {
        let mut model = self.burns(device);
        set(&mut model.norm, weights, device);
        model
    }

    /// Weights that no initializer gives.
    fn weights(&self, test: &str, device: &Device) -> Vec<Values> {
        let mut random = Random::of(test);
        let mut norm = (self.own)(device);
        let parameters = norm.parameters();
        parameters.iter().map(|_| Values::normal(&[WIDTH], DType::F32, &mut random)).collect()
    }
}

#[track_caller]
fn assert_weights<N: Norm>(mut model: Model<N>, weights: &[Values]) {
    let parameters = model.norm.parameters();
    let found: Vec<_> = parameters.iter().map(|p| exact(&p.val().into_data())).collect();
    let expected: Vec<_> = weights.iter().map(|weights| weights.data.clone()).collect();
    assert_eq!(found, expected);
}

/// Tests of a [`Pair`], and PyTorch's names of its weights.
macro_rules! record_tests {
    ($pair:expr, $names:expr) => {
        #[test]
        fn records_load_both_ways() {
            crate::nn::records::records_load_both_ways($pair);
        }

        #[test]
        fn pytorch_calls_them_weight_and_bias() {
            crate::nn::records::pytorch_calls_them_weight_and_bias($pair, &$names);
        }

        #[test]
        fn safetensors_keep_burns_names() {
            crate::nn::records::safetensors_keep_burns_names($pair);
        }
    };
}
pub(crate) use record_tests;

pub fn records_load_both_ways<A: Norm, B: Norm>(pair: Pair<A, B>) {
    let Some(device) = device::open() else { return };
    let weights = pair.weights("records_load_both_ways", &device);
    let stored =
        |record: ModuleRecord| ModuleRecord::from_bytes(record.into_bytes().unwrap()).unwrap();
    let record = stored(pair.burns_with(&weights, &device).into_record());
    assert_weights(pair.own(&device).load_record(record), &weights);

    let record = stored(pair.own_with(&weights, &device).into_record());
    assert_weights(pair.burns(&device).load_record(record), &weights);
}

/// A model's bytes in a store, and the names in them.
fn saved<N: Norm>(model: &Model<N>, mut store: SafetensorsStore) -> (Vec<u8>, Vec<String>) {
    model.save_into(&mut store).unwrap();
    let bytes = store.get_bytes().unwrap();
    let mut names = SafetensorsStore::from_bytes(Some(bytes.clone())).keys().unwrap();
    names.sort();
    (bytes, names)
}

#[track_caller]
fn load<N: Norm>(mut model: Model<N>, mut store: SafetensorsStore) -> Model<N> {
    let result = model.load_from(&mut store).unwrap();
    assert!(result.is_success(), "{result}");
    model
}

pub fn pytorch_calls_them_weight_and_bias<A: Norm, B: Norm>(pair: Pair<A, B>, expected: &[&str]) {
    let Some(device) = device::open() else { return };
    let weights = pair.weights("pytorch_calls_them_weight_and_bias", &device);
    let pytorch = || SafetensorsStore::from_bytes(None).with_to_adapter(BurnToPyTorchAdapter);
    let (bytes, names) = saved(&pair.own_with(&weights, &device), pytorch());
    assert_eq!(names, expected);
    assert_eq!(names, saved(&pair.burns_with(&weights, &device), pytorch()).1);
    let store = || {
        SafetensorsStore::from_bytes(Some(bytes.clone())).with_from_adapter(PyTorchToBurnAdapter)
    };
    assert_weights(load(pair.own(&device), store()), &weights);
    assert_weights(load(pair.burns(&device), store()), &weights);
}

pub fn safetensors_keep_burns_names<A: Norm, B: Norm>(pair: Pair<A, B>) {
    let Some(device) = device::open() else { return };
    let weights = pair.weights("safetensors_keep_burns_names", &device);
    let plain = || SafetensorsStore::from_bytes(None);
    let (burns, names) = saved(&pair.burns_with(&weights, &device), plain());
    let (own, own_names) = saved(&pair.own_with(&weights, &device), plain());
    assert_eq!(own_names, names);
    let store = |bytes: Vec<u8>| SafetensorsStore::from_bytes(Some(bytes));
    assert_weights(load(pair.own(&device), store(burns)), &weights);
    assert_weights(load(pair.burns(&device), store(own)), &weights);
}
