//! The conversion that CubeCL 0.11.3's CPU compiler calls for single bf16 numbers where the processor
//! has no instruction for it. It comes with GCC 13. Burn's own kernels, which tests run beside this crate's, do not run
//! without; this crate's do, as examples/bf16.rs shows.

/// Rounds to nearest, ties to even. The number is in the low half of the result, where the C
/// convention has a bf16.
#[unsafe(no_mangle)]
extern "C" fn __truncsfbf2(value: f32) -> f32 {
    f32::from_bits(u32::from(half::bf16::from_f32(value).to_bits()))
}
