//! Ctrl-C, signals that are to be taken for it, and the one that comes with writing too large a file.
//!
//! A thread of its own waits for SIGINT, so that the signal is seen at once even while every worker of the runtime is
//! busy with a query. Whoever runs something waits on [`Interrupt::next`] beside it.

use std::io;
use std::sync::{Arc, mpsc};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// SIGXFSZ, on every Linux but that of MIPS, and on macOS. Unless it is taken over, a file that reaches the limit on
/// the size of files (`ulimit -f`) ends the process; once it is, the write that would go beyond fails, and the
/// statement with it.
const FILE_TOO_LARGE: i32 = 25;

/// SIGHUP and SIGTERM: for those who leave something behind when they end without a word.
pub(crate) const FAREWELLS: &[SignalKind] = &[SignalKind::hangup(), SignalKind::terminate()];

/// Tells of each SIGINT since it was last asked. Clones count for themselves.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt {
    count: watch::Receiver<u64>,
}

impl Interrupt {
    /// Takes SIGINT and SIGXFSZ over from their default action, for the rest of the process's life, and `others`, which
    /// count as SIGINT; not those that the process was started to ignore, as `nohup` has it, and the shell for what a
    /// script has run in the background. `is_shell` takes SIGINT over all the same: somebody sits at the terminal.
    ///
    /// # Errors
    /// When the thread or the signal handler cannot be set up.
    pub(crate) fn install(others: &'static [SignalKind], is_shell: bool) -> io::Result<Self> {
        let (sender, count) = watch::channel(0);
        let sender = Arc::new(sender);
        let (ready, is_ready) = mpsc::channel();
        std::thread::Builder::new()
            .name("interrupt".to_owned())
            .spawn(move || wait_for_signals(others, is_shell, &sender, &ready))?;
        is_ready.recv().unwrap_or_else(|_| Err(io::Error::other("the signal thread ended early")))?;
        Ok(Self { count })
    }

    /// Forgets signals that came while nothing ran.
    pub(crate) fn forget(&mut self) {
        self.count.mark_unchanged();
    }

    /// Returns at the next SIGINT that was not forgotten; never, if none comes.
    pub(crate) async fn next(&mut self) {
        if self.count.changed().await.is_err() {
            // The thread is gone: no signal will ever come.
            std::future::pending::<()>().await;
        }
    }

    /// Whether a SIGINT came that was not forgotten.
    pub(crate) fn is_pending(&self) -> bool {
        self.count.has_changed().unwrap_or(false)
    }
}

fn wait_for_signals(
    others: &'static [SignalKind],
    is_shell: bool,
    sender: &Arc<watch::Sender<u64>>,
    ready: &mpsc::Sender<io::Result<()>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_io().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    runtime.block_on(async {
        let signals = match take_over(others, is_shell) {
            Ok(signals) => signals,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let _ = ready.send(Ok(()));
        let mut tasks = tokio::task::JoinSet::new();
        for mut signal in signals {
            let sender = Arc::clone(sender);
            tasks.spawn(async move {
                while signal.recv().await.is_some() {
                    sender.send_modify(|count| *count += 1);
                }
            });
        }
        while tasks.join_next().await.is_some() {}
    });
}

/// Those that count as Ctrl-C.
fn take_over(others: &[SignalKind], is_shell: bool) -> io::Result<Vec<Signal>> {
    // Nobody waits for it: it is enough that it does nothing.
    let _ = signal(SignalKind::from_raw(FILE_TOO_LARGE))?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_meant =
        |kind: &SignalKind| is_shell && *kind == SignalKind::interrupt() || !is_ignored(kind.as_raw_value(), &status);
    let kinds = std::iter::once(SignalKind::interrupt()).chain(others.iter().copied());
    kinds.filter(is_meant).map(signal).collect()
}

/// Whether the process ignores a signal, by the system's account of it; `false` where there is none.
fn is_ignored(number: i32, status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_those_of_the_mask() {
        let status = "Name:\tthermocline\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert!(is_ignored(1, status) && is_ignored(13, status));
        assert!(!is_ignored(2, status) && !is_ignored(15, status) && !is_ignored(1, ""));
    }
}
