use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// A bar on a terminal, a line every tenth of the steps elsewhere.
pub struct Progress {
    name: &'static str,
    bar: ProgressBar,
}

impl Progress {
    /// Of so many steps, some of which are done, below the other `bars`.
    pub fn new(name: &'static str, steps: usize, done: usize, bars: &MultiProgress) -> Self {
        let style = ProgressStyle::with_template("{prefix:10} {bar:30} {pos}/{len}  {msg}")
            .expect("the template is valid");
        let bar = bars.add(ProgressBar::new(steps as u64));
        let bar = bar.with_style(style).with_prefix(name).with_position(done as u64);
        Self { name, bar }
    }

    /// Shows the figures of one more step.
    pub fn step(&self, loss: f32, tokens_per_second: f64) {
        self.bar.set_message(format!("loss {loss:.3}  {tokens_per_second:.0} tokens/s"));
        self.bar.inc(1);
        let (done, steps) = (self.bar.position(), self.bar.length().unwrap_or_default());
        if self.bar.is_hidden() && (done == 1 || done * 10 / steps > (done - 1) * 10 / steps) {
            println!("{:10} {done}/{steps}  {}", self.name, self.bar.message());
        }
    }

    /// A line above the bar.
    pub fn say(&self, line: &str) {
        let (name, done) = (self.name, self.bar.position());
        self.bar.suspend(|| println!("{name:10} {done}: {line}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.abandon();
    }
}
