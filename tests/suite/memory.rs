//! What memory a device has handed out.

/// Bytes of a stream's memory.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    pub reserved: u64,
    pub in_use: u64,
}

/// That of this thread's stream, other tests having theirs; `None` where the device does not tell.
#[cfg(feature = "cubecl-backend")]
pub fn of_this_thread() -> Option<Memory> {
    use cubecl::MemoryScope;
    let usage = crate::device::cube()?.client().memory_report(MemoryScope::CurrentStream).usage();
    Some(Memory { reserved: usage.bytes_reserved, in_use: usage.bytes_in_use })
}

#[cfg(not(feature = "cubecl-backend"))]
pub fn of_this_thread() -> Option<Memory> {
    None
}
