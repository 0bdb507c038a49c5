//! The `thermocline` command: one-shot SQL, an interactive shell, the demo and the hardware report.
//!
//! Owns what a user sees of a run: arguments, text of results, progress, errors, exit codes. Does not own SQL:
//! everything is asked of `thermocline-engine`.
//!
//! Concurrency: queries run on the worker threads of one tokio runtime. The main thread waits for them, for Ctrl-C and
//! for the clock on a runtime of its own: timers of the first stand still while all its workers compute.

mod allocator;
mod arguments;
mod demo;
mod failure;
mod figures;
mod hardware_report;
mod incoming;
mod interrupt;
mod one_shot;
mod output;
mod progress_bar;
mod shell;
mod sql_text;
mod statement;
mod statement_cutter;
mod terminal;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use thermocline_engine::{Database, DatabaseOptions, THREAD_STACK_BYTES};
use thermocline_hardware::{Clock, SystemClock};
use tokio::runtime::Runtime;

use crate::arguments::{Arguments, DatabaseArguments, Source, Task};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::statement::Conversation;
use crate::terminal::Terminal;

/// How long threads of the runtime may take to notice the end of the process.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    thermocline_hardware::allow_open_files();
    let (arguments, sources) = match Arguments::read(std::env::args_os()) {
        Ok(read) => read,
        Err(error) => {
            // Help goes to standard output, wrong usage to standard error; neither is worth failing over.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(arguments, sources) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report(&Terminal::stderr());
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(arguments: Arguments, mut sources: Vec<Source>) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (stdout, stderr) = (Terminal::stdout(), Terminal::stderr());
    if let Some(Task::Hardware { no_calibrate }) = arguments.subcommand {
        let text = hardware_report::report(&clock, !no_calibrate, stdout.paint);
        let mut stdout = io::stdout().lock();
        return stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::output);
    }
    let others = if matches!(arguments.subcommand, Some(Task::Demo(_))) { interrupt::FAREWELLS } else { &[] };
    let is_shell = arguments.subcommand.is_none() && sources.is_empty() && io::stdin().is_terminal();
    let interrupt = Interrupt::install(others, is_shell).map_err(|error| Failure::Stream { name: "SIGINT", error })?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let database_arguments = match &arguments.subcommand {
        Some(Task::Demo(demo)) => &demo.database,
        _ => &arguments.database,
    };
    if let Some(threads) = database_arguments.threads {
        builder.worker_threads(threads.get());
    }
    builder.enable_all().thread_stack_size(THREAD_STACK_BYTES).thread_keep_alive(allocator::IDLE_THREAD);
    let workers = runtime(&mut builder)?;
    let waiting = runtime(tokio::runtime::Builder::new_current_thread().enable_time())?;
    let outcome = if let Some(Task::Demo(demo)) = &arguments.subcommand {
        open(&demo.database, &clock)
            .and_then(|database| waiting.block_on(demo::run(demo, &database, workers.handle(), interrupt, stdout)))
    } else {
        if sources.is_empty() && !io::stdin().is_terminal() {
            sources.push(Source::StandardInput);
        }
        open(&arguments.database, &clock).and_then(|database| {
            let mut conversation = Conversation {
                session: database.session(),
                workers: workers.handle().clone(),
                clock,
                interrupt,
                stdout,
                stderr,
                format: arguments.format,
                timer: arguments.timer,
                progress: !arguments.no_progress,
            };
            if sources.is_empty() {
                shell::run(&waiting, conversation)
            } else {
                waiting.block_on(one_shot::run(&mut conversation, &sources))
            }
        })
    };
    // A cancelled query may still be computing; the process does not wait for it.
    workers.shutdown_timeout(SHUTDOWN_GRACE);
    outcome
}

fn runtime(builder: &mut tokio::runtime::Builder) -> Result<Runtime> {
    builder.build().map_err(|error| Failure::Stream { name: "the runtime's threads", error })
}

fn open(arguments: &DatabaseArguments, clock: &Arc<dyn Clock>) -> Result<Arc<Database>> {
    let options = DatabaseOptions {
        folder: arguments.db.clone(),
        read_only: arguments.read_only,
        memory_bytes: arguments.memory,
        cache_memory_bytes: arguments.cache_memory,
        threads: arguments.threads.map(usize::from),
        eviction: arguments.eviction,
        allocated_bytes: Some(allocator::allocated_bytes),
        on_scarcity: Some(allocator::heed_scarcity),
        clock: Some(Arc::clone(clock)),
        ..DatabaseOptions::default()
    };
    Ok(Database::open(options)?)
}
