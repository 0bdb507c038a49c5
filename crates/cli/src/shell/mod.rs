//! The interactive shell: lines in, statements run, answers out.
//!
//! Owns the dialogue: prompts, history, dot commands, what an error does (it is told, and the session goes on). The line
//! editor asks [`line_editor`] for help while somebody types; statements run as in one-shot mode (`statement`).

mod completion;
mod dot_command;
mod entry;
mod history;
mod keywords;
mod line_editor;

use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Behavior, CompletionType, Config, Editor};
use thermocline_budget::format_bytes;
use thermocline_hardware::process_memory;
use tokio::runtime::Runtime;

use self::completion::SessionNames;
use self::dot_command::{DotCommand, HELP};
use self::entry::{Entry, Step};
use self::line_editor::SqlLine;
use crate::allocator;
use crate::failure::{Failure, Result};
use crate::statement::Conversation;
use crate::terminal::{Paint, printable};

const PROMPT: &str = "thermocline> ";
/// Where a statement goes on.
const CONTINUATION: &str = "        ...> ";

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
    let mut history = HistoryFile::load(&mut editor, &conversation);
    let limit_bytes = conversation.session.database().budget().limit_bytes();
    conversation.stderr.note(&format!(
        "{} {}  memory budget {}  .help for help",
        conversation.stderr.paint.bold("Thermocline"),
        env!("CARGO_PKG_VERSION"),
        format_bytes(limit_bytes)
    ));
    let prompt = (PROMPT.to_owned(), paint.bold(PROMPT));
    let continuation = (CONTINUATION.to_owned(), paint.dim(CONTINUATION));
    let mut entry = Entry::new();
    loop {
        if let Some(helper) = editor.helper_mut() {
            entry.lines().clone_into(&mut helper.before);
        }
        let goes_on = !entry.lines().is_empty();
        let text = match editor.readline(if goes_on { &continuation } else { &prompt }) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => {
                entry = Entry::new();
                continue;
            }
            Err(ReadlineError::Eof) if goes_on => {
                entry = Entry::new();
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(terminal_failure(error)),
        };
        let (steps, entered) = entry.take(&text);
        if let Some(entered) = entered.filter(|entered| !entered.trim().is_empty()) {
            history.add(&mut editor, entered.trim_end(), &conversation);
        }
        conversation.interrupt.forget();
        match take_steps(runtime, &mut conversation, steps)? {
            Outcome::Done => {}
            Outcome::Failed => {
                // What was entered with it may build on it.
                let dropped = std::mem::replace(&mut entry, Entry::new());
                if !dropped.lines().trim().is_empty() {
                    history.add(&mut editor, dropped.lines().trim_end(), &conversation);
                }
            }
            Outcome::Quit => return Ok(()),
        }
    }
}

/// What became of what was entered.
enum Outcome {
    Done,
    /// A step failed, which was told; those after it were not taken.
    Failed,
    /// The user wants to leave.
    Quit,
}

fn take_steps(runtime: &Runtime, conversation: &mut Conversation, steps: Vec<Step>) -> Result<Outcome> {
    for step in steps {
        let outcome = match step {
            Step::Command(line) => match DotCommand::parse(&line) {
                Ok(DotCommand::Quit) => return Ok(Outcome::Quit),
                Ok(command) => obey(runtime, conversation, command),
                Err(message) => {
                    let label = conversation.stderr.paint.red("error:");
                    conversation.stderr.note(&format!("{label} {}", printable(&message)));
                    return Ok(Outcome::Failed);
                }
            },
            Step::Statement(sql) => runtime.block_on(conversation.run(&sql)),
        };
        match outcome {
            Ok(()) => {}
            Err(failure @ Failure::OutputClosed { .. }) => return Err(failure),
            Err(failure) => {
                failure.report(&conversation.stderr);
                return Ok(Outcome::Failed);
            }
        }
    }
    Ok(Outcome::Done)
}

/// Where lines go that were entered.
struct HistoryFile {
    /// `None` where there is no place for it, or it cannot be written.
    path: Option<PathBuf>,
}

impl HistoryFile {
    fn load(editor: &mut Editor<SqlLine, FileHistory>, conversation: &Conversation) -> Self {
        let mut file = Self { path: history::file() };
        if let Some(path) = file.path.clone().filter(|path| path.exists()) {
            let outcome = history::mend(&path).map_err(ReadlineError::Io).and_then(|()| editor.load_history(&path));
            file.keep_if(outcome, conversation);
        }
        file
    }

    fn add(&mut self, editor: &mut Editor<SqlLine, FileHistory>, entered: &str, conversation: &Conversation) {
        let _ = editor.add_history_entry(entered);
        if let Some(path) = self.path.clone() {
            let outcome = editor.append_history(&path);
            self.keep_if(outcome, conversation);
        }
    }

    /// After a failure, history lasts as long as the shell, which is said once.
    fn keep_if(&mut self, outcome: rustyline::Result<()>, conversation: &Conversation) {
        let Err(error) = outcome else { return };
        if let Some(path) = self.path.take() {
            let message = format!("what is entered is not kept in {}: {error}", path.display());
            conversation.stderr.note(&printable(&message));
        }
    }
}

fn editor(conversation: &Conversation) -> rustyline::Result<Editor<SqlLine, FileHistory>> {
    // Prompts and what is typed belong on the terminal, also where answers go to a file.
    let behavior = if conversation.stdout.is_terminal { Behavior::Stdio } else { Behavior::PreferTerm };
    let config = Config::builder()
        .max_history_size(history::CAPACITY_LINES)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .behavior(behavior)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(SqlLine {
        names: SessionNames { session: conversation.session.clone(), workers: conversation.workers.clone() },
        paint: if conversation.stdout.is_terminal { conversation.stdout.paint } else { Paint::PLAIN },
        before: String::new(),
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
