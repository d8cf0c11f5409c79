//! How many kernels each test compiles: with `BURN_FUSED_KERNELS` set tests take turns, and each says at its end
//! how many it launched that no test before it did, and how long it took.

use crate::device;
use cubecl::launched::LaunchedKernels;
use std::{
    cell::RefCell,
    collections::HashSet,
    env,
    io::{self, Write},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

static TURN: Mutex<()> = Mutex::new(());
static SEEN: Mutex<Option<HashSet<String>>> = Mutex::new(None);

thread_local! {
    static TEST: RefCell<Option<Counted>> = const { RefCell::new(None) };
}

/// Counts those of the calling test, until its thread ends.
pub fn count() {
    // Threads that a test starts have no name, and are a part of it.
    let Some(name) = thread::current().name().map(str::to_owned) else { return };
    if env::var_os("BURN_FUSED_KERNELS").is_none() {
        return;
    }
    TEST.with_borrow_mut(|test| {
        test.get_or_insert_with(|| Counted {
            name,
            _turn: TURN.lock().unwrap_or_else(PoisonError::into_inner),
            since: Instant::now(),
            launched: Some(LaunchedKernels::new()),
        });
    });
}

struct Counted {
    name: String,
    since: Instant,
    launched: Option<LaunchedKernels>,
    _turn: MutexGuard<'static, ()>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let launched = self.launched.take().map(LaunchedKernels::finish).unwrap_or_default();
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = seen.get_or_insert_default();
        let new = launched.iter().filter(|kernel| seen.insert(format!("{kernel:?}"))).count();
        let (seconds, device) = (self.since.elapsed().as_secs_f64(), device::name());
        let line = format!("{new:5} kernels, {seconds:6.1} s on {device}: {}", self.name);
        // A passing test keeps what macros print. Nobody reads it where this fails.
        let _ = writeln!(io::stderr(), "{line}");
    }
}
