//! What the crate logs, from the first call on.

use crate::{
    device,
    layer_norm::LayerNorm,
    op::{Data, Op},
    random::Random,
    rms_norm::RmsNorm,
    softmax::{LogSoftmax, Softmax},
};
use burn::tensor::DType;
use log::{Level, LevelFilter, Log, Metadata, Record};
use std::sync::{Mutex, Once};

/// Keeps the crate's warnings.
struct Warnings(Mutex<Vec<String>>);

static WARNINGS: Warnings = Warnings(Mutex::new(Vec::new()));

impl Log for Warnings {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.level() <= Level::Warn && metadata.target().starts_with("burn_fused")
    }

    fn log(&self, record: &Record) {
        if self.enabled(record.metadata()) {
            self.0.lock().unwrap().push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// To be called before anything is run.
pub fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&WARNINGS).expect("no other logger is set");
        log::set_max_level(LevelFilter::Warn);
    });
}

/// The composed path is said once for each op and type, however often it is taken; the fused one is not.
#[test]
fn composed_once_fused_never() {
    fn run<O: Op>(op: O) {
        let Some(device) = device::open() else { return };
        let mut random = Random::of("composed_once_fused_never");
        let data = Data::random::<O>(&[3, 40], 1, DType::F32, None, &mut random);
        for _ in 0..2 {
            data.run(op, &device);
        }
        let warnings = WARNINGS.0.lock().unwrap().clone();
        // Other tests run the ops on flex beside the device under test.
        let (here, flex) = (device::name(), "flex");
        let said = format!("{} has no fused kernel for F32 on", O::NAME);
        let times = warnings
            .iter()
            .filter(|warning| warning.starts_with(&said))
            .filter(|warning| here == flex || !warning.contains(" on flex:"))
            .count();
        assert_eq!(times, usize::from(here == flex), "{}: {warnings:#?}", O::NAME);
    }
    run(RmsNorm::default());
    run(LayerNorm::default());
    run(Softmax(-1));
    run(LogSoftmax(-1));
}
