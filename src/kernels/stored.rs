//! Elements as they are stored, and as numbers to compute with.
//!
//! On the CPU bf16 is stored as u16 and converted here. For what the processor has no instruction for CubeCL 0.11.3's
//! compiler calls functions of libgcc, that for bf16 from GCC 13; where it is missing the kernel does not run, what it
//! should have written is anything, and no caller is told. LLVM calls it also between a kernel's blocks, where a bf16 is
//! kept as f32, so that the compiler must not see the type at all. Its subnormal numbers stay what they are, which the
//! instruction of AVX512-BF16 makes zero.

use super::plan::Hardware;
use cubecl::{
    ir::{ElemType, FloatKind, UIntKind},
    prelude::*,
};

const HALF: ElemType = ElemType::Float(FloatKind::F16);
const BFLOAT: ElemType = ElemType::Float(FloatKind::BF16);
const DOUBLE: ElemType = ElemType::Float(FloatKind::F64);
/// bf16 on the CPU: no float is stored as u16 otherwise.
const BITS: ElemType = ElemType::UInt(UIntKind::U16);

/// What kernels are to take the element type for.
pub(crate) fn stored(element: ElemType, hardware: Hardware) -> ElemType {
    if hardware.cpu && element == BFLOAT { BITS } else { element }
}

/// The numbers.
#[cube]
pub(crate) fn widened<T: Numeric, A: Float, V: Size>(value: Vector<T, V>) -> Vector<A, V> {
    let of = elem_type_of::<T>();
    if comptime!(of == BITS) {
        let bits = Vector::<u32, V>::cast_from(value) << Vector::new(16u32);
        Vector::cast_from(Vector::<f32, V>::reinterpret(bits))
    } else {
        Vector::cast_from(value)
    }
}

/// To be stored: rounded to nearest, ties to even, or what was stored already.
#[cube]
pub(crate) fn rounded<A: Numeric, T: Numeric, V: Size>(value: Vector<A, V>) -> Vector<T, V> {
    let (from, to) = (elem_type_of::<A>(), elem_type_of::<T>());
    let hardware = comptime::hardware_properties();
    // For f64 to f16 the compiler calls a function of GCC 12's libgcc.
    let by_steps = comptime!(hardware.num_cpu_cores.is_some() && from == DOUBLE && to == HALF);
    if comptime!(to == BITS && from == DOUBLE) {
        bits::<T, V>(odd_floats::<V>(Vector::cast_from(value)))
    } else if comptime!(to == BITS && from != BITS) {
        bits::<T, V>(Vector::cast_from(value))
    } else if by_steps {
        Vector::cast_from(odd_floats::<V>(Vector::cast_from(value)))
    } else {
        Vector::cast_from(value)
    }
}

/// The sums, in the type that both are stored in.
#[cube]
pub(crate) fn added<T: Numeric, V: Size>(a: Vector<T, V>, b: Vector<T, V>) -> Vector<T, V> {
    let of = elem_type_of::<T>();
    if comptime!(of == BITS) {
        // To round twice is to round once, as f32 has more than twice the digits.
        rounded::<f32, T, V>(widened::<T, f32, V>(a) + widened::<T, f32, V>(b))
    } else {
        a + b
    }
}

/// −∞.
#[cube]
pub(crate) fn minus_infinity<T: Numeric>() -> T {
    let of = elem_type_of::<T>();
    if comptime!(of == BITS) { T::from_int(0xFF80) } else { T::cast_from(f32::NEG_INFINITY) }
}

/// bf16: the upper halves of the bits, with what they carry from the lower ones.
#[cube]
fn bits<T: Numeric, V: Size>(value: Vector<f32, V>) -> Vector<T, V> {
    let bits = Vector::<u32, V>::reinterpret(value);
    let upper = bits >> Vector::new(16u32);
    let half_less_one = Vector::new(0x7FFFu32) + (upper & Vector::new(1u32));
    let nearest = (bits + half_less_one) >> Vector::new(16u32);
    // The carry would make a NaN something else.
    let quiet = upper | Vector::new(0x40u32);
    let magnitude = bits & Vector::new(0x7FFF_FFFFu32);
    let number = magnitude.less_equal(&Vector::new(0x7F80_0000u32));
    Vector::cast_from(select_many(number, nearest, quiet))
}

/// Rounded to f32, with an odd last digit where that is not exact, so that to round once more is as if it were the
/// first time (Boldo and Melquiond, *Emulation of FMA and Correctly Rounded Sums*, 2008).
#[cube]
fn odd_floats<V: Size>(value: Vector<f64, V>) -> Vector<f32, V> {
    let nearest = Vector::<f32, V>::cast_from(value);
    let back = Vector::<f64, V>::cast_from(nearest);
    let bits = Vector::<u32, V>::reinterpret(nearest);
    let too_far = back.abs().greater_than(&value.abs());
    let toward_zero = select_many(too_far, bits - Vector::new(1u32), bits);
    // A NaN is not equal, and stays one.
    let exact = back.equal(&value);
    Vector::<f32, V>::reinterpret(select_many(exact, bits, toward_zero | Vector::new(1u32)))
}
