//! The interactive shell: lines in, statements run, answers out.
//!
//! Owns the dialogue: prompt, history, dot commands, what an error does (it is told, and the session goes on). The line
//! editor asks [`line_editor`] for help while somebody types; statements run as in one-shot mode (`statement`).

mod completion;
mod dot_command;
mod history;
mod keywords;
mod line_editor;
mod sql_text;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use thermocline_budget::format_bytes;
use thermocline_hardware::process_memory;
use tokio::runtime::Runtime;

use self::completion::SessionNames;
use self::dot_command::{DotCommand, HELP};
use self::line_editor::SqlLine;
use crate::allocator;
use crate::failure::{Failure, Result};
use crate::statement::Conversation;
use crate::terminal::Paint;

/// What `.tables` asks.
const TABLES_SQL: &str = "SELECT table_schema AS \"schema\", table_name AS \"table\", table_type AS \"type\" \
    FROM information_schema.tables WHERE table_schema <> 'information_schema' ORDER BY 1, 2";

/// Talks to the user until they leave, waiting for statements on `runtime`.
///
/// # Errors
/// When the terminal fails. Failures of statements are told and forgotten.
pub(crate) fn run(runtime: &Runtime, mut conversation: Conversation) -> Result<()> {
    let paint = conversation.stdout.paint;
    let mut editor = editor(&conversation).map_err(terminal_failure)?;
    let history_file = history::file();
    if let Some(file) = &history_file {
        // There is none the first time.
        let _ = editor.load_history(file);
    }
    let limit_bytes = conversation.session.database().budget().limit_bytes();
    conversation.stderr.note(&format!(
        "{} {}  memory budget {}  .help for help",
        conversation.stderr.paint.bold("Thermocline"),
        env!("CARGO_PKG_VERSION"),
        format_bytes(limit_bytes)
    ));
    let prompt = ("thermocline> ".to_owned(), paint.bold("thermocline> "));
    loop {
        let line = match editor.readline(&prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(terminal_failure(error)),
        };
        if line.trim().is_empty() {
            continue;
        }
        let _ = editor.add_history_entry(line.as_str());
        if let Some(file) = &history_file {
            let _ = editor.append_history(file);
        }
        conversation.interrupt.forget();
        let outcome = if line.trim_start().starts_with('.') {
            match DotCommand::parse(&line) {
                Ok(DotCommand::Quit) => break,
                Ok(command) => obey(runtime, &mut conversation, command),
                Err(message) => {
                    conversation.stderr.note(&format!("{} {message}", conversation.stderr.paint.red("error:")));
                    Ok(())
                }
            }
        } else {
            runtime.block_on(conversation.run(&line))
        };
        match outcome {
            Ok(()) => {}
            Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
            Err(failure) => failure.report(&conversation.stderr),
        }
    }
    Ok(())
}

fn editor(conversation: &Conversation) -> rustyline::Result<Editor<SqlLine, FileHistory>> {
    let config = Config::builder()
        .max_history_size(history::CAPACITY_LINES)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(SqlLine {
        names: SessionNames { session: conversation.session.clone(), workers: conversation.workers.clone() },
        paint: if conversation.stdout.is_terminal { conversation.stdout.paint } else { Paint::PLAIN },
    }));
    Ok(editor)
}

fn terminal_failure(error: ReadlineError) -> Failure {
    let error = match error {
        ReadlineError::Io(error) => error,
        other => std::io::Error::other(other),
    };
    Failure::Stream { name: "the terminal", error }
}

fn obey(runtime: &Runtime, conversation: &mut Conversation, command: DotCommand) -> Result<()> {
    match command {
        DotCommand::Quit => Ok(()),
        DotCommand::Help => conversation.say(HELP),
        DotCommand::Memory => conversation.say(&memory_text(conversation)),
        DotCommand::Tables => runtime.block_on(conversation.run(TABLES_SQL)),
        DotCommand::Timer(on) => {
            conversation.timer = on;
            Ok(())
        }
        DotCommand::Format(format) => {
            conversation.format = format;
            conversation.say(&format!("format: {}", format.name()))
        }
    }
}

/// The budget and what holds it, one account a line.
fn memory_text(conversation: &Conversation) -> String {
    let budget = conversation.session.database().budget();
    let mut lines = vec![
        ("budget".to_owned(), format_bytes(budget.limit_bytes())),
        ("of it for caches".to_owned(), budget.cache_limit_bytes().map_or_else(|| "all".to_owned(), format_bytes)),
        ("reserved".to_owned(), format_bytes(budget.reserved_bytes())),
    ];
    for account in budget.accounts().into_iter().filter(|account| account.reserved_bytes > 0) {
        let name = format!("  {} ({})", account.name, account.purpose.as_str());
        lines.push((name, format_bytes(account.reserved_bytes)));
    }
    let allocated_bytes = allocator::allocated_bytes();
    lines.push(("allocated".to_owned(), format_bytes(allocated_bytes)));
    lines.push(("private memory of the process".to_owned(), format_bytes(process_memory().private_bytes())));
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: Vec<String> = lines.into_iter().map(|(name, value)| format!("{name:width$}  {value}")).collect();
    lines.join("\n")
}
