//! Ctrl-C, and the signal that comes with writing too large a file.
//!
//! A thread of its own waits for SIGINT, so that the signal is seen at once even while every worker of the runtime is
//! busy with a query. Whoever runs something waits on [`Interrupt::next`] beside it.

use std::io;
use std::sync::mpsc;

use tokio::sync::watch;

/// SIGXFSZ, on every Linux but that of MIPS, and on macOS. Unless it is taken over, a file that reaches the limit on
/// the size of files (`ulimit -f`) ends the process; once it is, the write that would go beyond fails, and the
/// statement with it.
const FILE_TOO_LARGE: i32 = 25;

/// Tells of each SIGINT since it was last asked. Clones count for themselves.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt {
    count: watch::Receiver<u64>,
}

impl Interrupt {
    /// Takes SIGINT and SIGXFSZ over from their default action, for the rest of the process's life.
    ///
    /// # Errors
    /// When the thread or the signal handler cannot be set up.
    pub(crate) fn install() -> io::Result<Self> {
        let (sender, count) = watch::channel(0);
        let (ready, is_ready) = mpsc::channel();
        std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || wait_for_signals(&sender, &ready))?;
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

fn wait_for_signals(sender: &watch::Sender<u64>, ready: &mpsc::Sender<io::Result<()>>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_io().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        let taken_over = signal(SignalKind::from_raw(FILE_TOO_LARGE)).and_then(|_| signal(SignalKind::interrupt()));
        let mut signals = match taken_over {
            Ok(signals) => signals,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let _ = ready.send(Ok(()));
        while signals.recv().await.is_some() {
            sender.send_modify(|count| *count += 1);
        }
    });
}
