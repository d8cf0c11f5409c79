//! burn-fused's side of the accuracy comparison that `docs/accuracy.md` describes: runs the cases of
//! a directory that `accuracy.py prepare` made, forwards and backwards, and writes what they give
//! there. `BURN_FUSED_DEVICE` names the device: cuda (the default), vulkan, cpu or flex.

mod case;
mod device;

use case::Case;
use std::{env, error::Error, fs, path::Path, process::ExitCode};

fn main() -> ExitCode {
    // Cargo adds `--bench` when it runs this as one.
    let Some(directory) = env::args().skip(1).find(|argument| !argument.starts_with("--")) else {
        println!("skipped: the argument is a directory that benches/accuracy/accuracy.py prepared");
        return ExitCode::SUCCESS;
    };
    match run(Path::new(&directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(directory: &Path) -> Result<(), Box<dyn Error>> {
    let name = env::var("BURN_FUSED_DEVICE").unwrap_or_else(|_| "cuda".into());
    let device = device::open(&name)?;
    let read = |path: &Path| {
        fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let manifest = read(&directory.join("manifest.txt"))?;
    let outputs = directory.join("burn_fused");
    // Those of another device may be of more types.
    if outputs.exists() {
        fs::remove_dir_all(&outputs)?;
    }
    fs::create_dir_all(&outputs)?;
    let mut paths = Vec::new();
    for line in manifest.lines() {
        let case: Case = line.parse()?;
        if !device.supports_dtype(case.dtype) {
            println!("{line}: skipped, {name} does not compute in {:?}", case.dtype);
            continue;
        }
        let path = case.run(directory, &outputs, &device)?;
        println!("{line}: {path}");
        paths.push(path);
    }
    paths.sort();
    paths.dedup();
    fs::write(outputs.join("device.txt"), format!("{name} ({})\n", paths.join("; ")))?;
    Ok(())
}
