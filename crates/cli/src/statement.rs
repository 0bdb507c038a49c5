//! Running statements: rows to standard output, a bar while it takes long, Ctrl-C at any time.
//!
//! Each statement runs as a task of the workers and prints its rows itself; the caller's thread, on a runtime of its
//! own, only waits for it, for Ctrl-C and for the next time the bar is due. So a query that computes without pause, or
//! a reader that does not read, cannot keep Ctrl-C from being seen. On Ctrl-C the task is dropped with all that the
//! query started, and given [`CANCEL_GRACE`] to end; whatever it is still doing then ends at its next pause, unseen.

use std::future::Future;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use thermocline_engine::{QueryResult, Session, SqlStatement};
use thermocline_hardware::Clock;
use tokio::runtime::Handle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::{Format, Screen};
use crate::progress_bar::StatementBar;
use crate::terminal::Terminal;

/// How long a cancelled task may take before its caller goes on without it. Half of what a user takes for "at once".
const CANCEL_GRACE: Duration = Duration::from_millis(50);
/// How often a bar is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);

/// A session with a user in front of it, or a script.
#[derive(Clone)]
pub(crate) struct Conversation {
    pub(crate) session: Session,
    /// Where statements run.
    pub(crate) workers: Handle,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) interrupt: Interrupt,
    pub(crate) stdout: Terminal,
    pub(crate) stderr: Terminal,
    pub(crate) format: Format,
    pub(crate) timer: bool,
    pub(crate) progress: bool,
}

impl Conversation {
    /// Runs every statement of `text` in turn, up to the first failure. Nothing runs if any of it is not SQL.
    pub(crate) async fn run(&mut self, text: &str) -> Result<()> {
        let statements = self.session.parse(text)?;
        self.run_statements(statements).await
    }

    /// Runs `statements` in turn, up to the first failure.
    pub(crate) async fn run_statements(&mut self, statements: Vec<SqlStatement>) -> Result<()> {
        let mut statements = statements.into_iter().peekable();
        while let Some(statement) = statements.next() {
            let outcome = self.run_statement(statement).await;
            outcome.map_err(|failure| if statements.peek().is_some() { failure.before_others() } else { failure })?;
        }
        Ok(())
    }

    /// Prints a line that is no row.
    pub(crate) fn say(&self, line: &str) -> Result<()> {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{line}").and_then(|()| stdout.flush()).map_err(Failure::output)
    }

    /// Runs one statement.
    pub(crate) async fn run_statement(&mut self, statement: SqlStatement) -> Result<()> {
        let started_ns = self.clock.monotonic_ns();
        let shows_bar = self.progress && self.stderr.is_terminal;
        let bar = Arc::new(StatementBar::new(Arc::clone(&self.clock), shows_bar));
        let task = print_rows(self.clone(), statement, Arc::clone(&bar));
        let outcome = until_interrupted(&self.workers, &mut self.interrupt, task, || bar.draw()).await;
        bar.close();
        outcome?;
        if self.timer {
            let elapsed_ns = self.clock.monotonic_ns().saturating_sub(started_ns);
            self.stderr.note(&format!("time: {:.6} s", elapsed_ns as f64 / 1e9));
        }
        Ok(())
    }
}

/// Runs `task` on `workers` until it ends or Ctrl-C comes, calling `draw` now and then.
pub(crate) async fn until_interrupted<T: Send + 'static>(
    workers: &Handle,
    interrupt: &mut Interrupt,
    task: impl Future<Output = Result<T>> + Send + 'static,
    mut draw: impl FnMut(),
) -> Result<T> {
    let mut task = workers.spawn(task);
    let mut due = interval(DRAW_INTERVAL);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = interrupt.next() => {
                task.abort();
                // Whether it ended in time or not, and however: the user asked for its end.
                let _ = timeout(CANCEL_GRACE, &mut task).await;
                return Err(Failure::Interrupted);
            }
            outcome = &mut task => {
                return outcome.unwrap_or_else(|error| Err(Failure::Fault(fault_text(error))));
            }
            _ = due.tick() => draw(),
        }
    }
}

/// What a panic said, if it said something.
fn fault_text(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "the statement's task ended early".to_owned() };
    let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", said.unwrap_or("without a message"))
}

async fn print_rows(conversation: Conversation, statement: SqlStatement, bar: Arc<StatementBar>) -> Result<()> {
    let mut result = conversation.session.execute_watched(&statement, bar.progress()).await?;
    let schema = result.schema();
    let mut out = Vec::new();
    if schema.fields().is_empty() {
        return drain(result).await;
    }
    let screen = conversation
        .stdout
        .is_terminal
        .then(|| Screen { width_columns: conversation.stdout.width_columns(), paint: conversation.stdout.paint });
    let mut writer = conversation.format.writer(&schema, screen);
    while let Some(batch) = result.next().await {
        writer.write(&batch?, &mut out)?;
        if !out.is_empty() {
            print(&conversation, &bar, &mut out)?;
        }
    }
    writer.finish(&mut out)?;
    print(&conversation, &bar, &mut out)
}

async fn drain(mut result: QueryResult) -> Result<()> {
    while let Some(batch) = result.next().await {
        batch?;
    }
    Ok(())
}

/// Writes `out` and empties it. Nothing is written any more once the user wants an end.
fn print(conversation: &Conversation, bar: &StatementBar, out: &mut Vec<u8>) -> Result<()> {
    if conversation.interrupt.is_pending() {
        return Err(Failure::Interrupted);
    }
    if conversation.stdout.is_terminal {
        bar.close();
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(out).and_then(|()| stdout.flush()).map_err(Failure::output)?;
    out.clear();
    Ok(())
}
