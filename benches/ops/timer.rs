//! Three ways to time a call that is queued on a device. Each gives the median, in microseconds.

use burn::tensor::Device;
use cubecl::{client::Client, future::block_on};
use std::time::Instant;

pub struct Timer {
    pub client: Client,
    device: Device,
    /// Whether the device captures graphs.
    replays: bool,
}

impl Timer {
    pub fn new(client: Client, device: Device) -> Self {
        let replays = client.name() == "cuda";
        Self { client, device, replays }
    }

    /// How [`device`](Self::device) times.
    pub fn method(&self) -> &'static str {
        if self.replays {
            "median of nine replays of a graph of as many calls as take 5 ms"
        } else {
            "wall time of calls queued back to back, median of five windows"
        }
    }

    /// The device's time for a call of a backend's function, without the host's where graphs can be
    /// captured.
    pub fn device(&self, call: impl Fn(usize)) -> f64 {
        if !self.replays {
            return self.queued(call);
        }
        let estimate = self.replay(20, &call);
        self.replay((5000.0 / estimate).clamp(20.0, 2000.0) as usize, &call)
    }

    fn replay(&self, calls: usize, call: impl Fn(usize)) -> f64 {
        let client = &self.client;
        let run = || (0..calls).for_each(&call);
        run();
        block_on(client.sync()).expect("the warm-up runs");
        client.graph_prepare().expect("the device captures graphs");
        run();
        client.start_capture().expect("the device captures graphs");
        run();
        let graph = client.stop_capture().expect("the calls can be captured");
        let replay = || {
            block_on(client.sync()).expect("the device is well");
            let window = client.profile_start().expect("the device has timers");
            // SAFETY: the buffers of the captured calls are alive.
            unsafe { graph.replay() }.expect("the graph replays");
            let duration = client.profile_end(window).expect("the window is open");
            block_on(duration.into_future()).expect("the timer ran").duration().as_secs_f64()
        };
        median(&mut [(); 9].map(|()| replay())) * 1e6 / calls as f64
    }

    /// Wall time of calls queued back to back, waited for at the window's end: 200 of them, or as many as
    /// take a twentieth of a second if those are fewer.
    pub fn queued(&self, call: impl Fn(usize)) -> f64 {
        const WINDOW: f64 = 0.05;
        let window = |calls: usize| {
            self.device.sync().expect("the device is well");
            let start = Instant::now();
            (0..calls).for_each(&call);
            self.device.sync().expect("the calls run");
            start.elapsed().as_secs_f64() / calls as f64
        };
        // Kernels are compiled and tuned in the first call.
        window(1);
        let estimate = window(2).min(window(2));
        let calls = (WINDOW / estimate).clamp(2.0, 200.0) as usize;
        median(&mut [(); 5].map(|()| window(calls))) * 1e6
    }

    /// The host's time for a call: 1,000 are queued in a row.
    pub fn host(&self, call: impl Fn(usize)) -> f64 {
        const CALLS: usize = 1000;
        let queue = || {
            self.device.sync().expect("the device is well");
            let start = Instant::now();
            (0..CALLS).for_each(&call);
            start.elapsed().as_secs_f64() / CALLS as f64
        };
        queue();
        median(&mut [(); 5].map(|()| queue())) * 1e6
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
