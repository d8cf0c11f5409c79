//! Shows CubeCL's CPU compiler a function that Burn's own bf16 kernels need in tests and benches: see tests/suite/bf16.rs.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        for kind in ["tests", "benches"] {
            println!("cargo::rustc-link-arg-{kind}=-Wl,--export-dynamic-symbol=__truncsfbf2");
        }
    }
}
