//! The progress bar of a running statement, on standard error.
//!
//! It appears after a second and vanishes before the first row is printed to the same terminal. Where a
//! statement reports no bytes, a spinner tells that it is alive.
//!
//! Concurrency: the statement's task tells its [`Progress`] and closes the bar, the waiting thread draws; one lock makes
//! sure that nothing is drawn after the bar is closed.

use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use thermocline_engine::Progress;
use thermocline_hardware::Clock;

use crate::figures::{bytes_text, duration_text};

/// Shorter waits need no explanation.
const APPEARS_AFTER_NS: u64 = 1_000_000_000;

/// The bar of one statement.
pub(crate) struct StatementBar {
    clock: Arc<dyn Clock>,
    started_ns: u64,
    progress: Arc<Progress>,
    state: Mutex<State>,
}

struct State {
    enabled: bool,
    bar: Option<ProgressBar>,
}

impl StatementBar {
    /// A bar for a statement that starts now; when not `enabled`, it never shows.
    pub(crate) fn new(clock: Arc<dyn Clock>, enabled: bool) -> Self {
        let started_ns = clock.monotonic_ns();
        Self { clock, started_ns, progress: Arc::default(), state: Mutex::new(State { enabled, bar: None }) }
    }

    /// Where the figures come from: what the statement is to tell.
    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Draws the present state, if it is time.
    pub(crate) fn draw(&self) {
        let elapsed_ns = self.clock.monotonic_ns().saturating_sub(self.started_ns);
        let mut state = self.state();
        if !state.enabled || elapsed_ns < APPEARS_AFTER_NS {
            return;
        }
        let (done_bytes, total_bytes) = (self.progress.done_bytes(), self.progress.total_bytes());
        let bar = state.bar.get_or_insert_with(|| {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(spinner())
        });
        if total_bytes == 0 {
            bar.set_message(duration_text(elapsed_ns));
            bar.tick();
        } else {
            if bar.length() != Some(total_bytes) {
                bar.set_style(measured());
                bar.set_length(total_bytes);
            }
            bar.set_position(done_bytes.min(total_bytes));
            bar.set_message(message(done_bytes, total_bytes, elapsed_ns));
        }
    }

    /// Removes the bar for good.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.enabled = false;
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StatementBar {
    fn drop(&mut self) {
        self.close();
    }
}

fn spinner() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn measured() -> ProgressStyle {
    ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}")
        .map_or_else(|_| ProgressStyle::default_bar(), |style| style.progress_chars("━╸─"))
}

/// `412 MB of 2.47 GB · 980 MB/s · 2.10 s left`.
fn message(done_bytes: u64, total_bytes: u64, elapsed_ns: u64) -> String {
    let mut text = format!("{} of {}", bytes_text(done_bytes), bytes_text(total_bytes));
    if done_bytes == 0 || elapsed_ns == 0 {
        return text;
    }
    let bytes_per_ns = done_bytes as f64 / elapsed_ns as f64;
    text.push_str(&format!(" · {}/s", bytes_text((bytes_per_ns * 1e9) as u64)));
    let left_bytes = total_bytes.saturating_sub(done_bytes);
    if left_bytes > 0 {
        text.push_str(&format!(" · {} left", duration_text((left_bytes as f64 / bytes_per_ns) as u64)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_tells_bytes_speed_and_what_is_left() {
        assert_eq!(message(500_000_000, 2_500_000_000, 1_000_000_000), "500 MB of 2.50 GB · 500 MB/s · 4.00 s left");
        assert_eq!(message(0, 2_500_000_000, 1_000_000_000), "0 B of 2.50 GB");
        assert_eq!(message(10, 10, 1_000_000_000), "10 B of 10 B · 10 B/s");
    }

    #[test]
    fn the_templates_are_valid() {
        assert!(ProgressStyle::with_template("{spinner} {msg}").is_ok());
        assert!(ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}").is_ok());
    }
}
