//! SQL from the command line, files and standard input: run it and exit.
//!
//! Text and files are read to their end, and nothing runs if any of it is not SQL. So is standard input that is a file;
//! of a pipe, whose writer may wait for answers, each statement runs as soon as its semicolon has come. Dot commands
//! are the shell's, and refused.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use thermocline_engine::{Error, Session, SqlStatement};
use tokio::time::timeout;

use crate::arguments::Source;
use crate::failure::{Failure, Result};
use crate::incoming::{self, Incoming};
use crate::statement::Conversation;
use crate::statement_cutter::{Cut, StatementCutter};

/// How long the end of standard input may take to be seen once the reader of the answers has left: a writer that ends
/// with its last statement closes its side some moments after it, on a busy machine many. Only a run whose writer stays
/// takes so long, and nobody reads what it says any more.
const END_GRACE: Duration = Duration::from_secs(1);

/// Runs `sources` in order, up to the first failure.
pub(crate) async fn run(conversation: &mut Conversation, sources: &[Source]) -> Result<()> {
    for (index, source) in sources.iter().enumerate() {
        let outcome = run_source(conversation, source).await;
        outcome.map_err(|failure| if index + 1 < sources.len() { failure.before_others() } else { failure })?;
    }
    Ok(())
}

async fn run_source(conversation: &mut Conversation, source: &Source) -> Result<()> {
    match source {
        Source::Command(text) => run_text(conversation, text, &Origin::Command).await,
        Source::File(path) => {
            let fail = |error| Failure::File { path: path.clone(), error };
            let opened = path.clone();
            // A file may be a pipe, which can be opened once somebody writes.
            let text = incoming::whole(conversation, move || File::open(opened)).await?.map_err(fail)?;
            run_text(conversation, &text, &Origin::File(path.display().to_string())).await
        }
        Source::StandardInput if is_regular(&io::stdin()) => {
            let text = incoming::whole(conversation, || Ok(io::stdin())).await?.map_err(incoming::failure)?;
            run_text(conversation, &text, &Origin::StandardInput).await
        }
        Source::StandardInput => run_incoming(conversation).await,
    }
}

/// Whether it is a file on a disk, whose end is there already.
fn is_regular(stream: &impl AsFd) -> bool {
    let file = stream.as_fd().try_clone_to_owned().map(File::from);
    file.and_then(|file| file.metadata()).is_ok_and(|metadata| metadata.is_file())
}

/// Where statements come from, as messages name it.
enum Origin {
    Command,
    File(String),
    StandardInput,
}

impl Origin {
    /// `failure` with the file, and the line where its statement begins if that is known.
    fn name(&self, failure: Failure, line: Option<usize>) -> Failure {
        match (self, line) {
            (Self::Command, _) | (Self::StandardInput, None) => failure,
            (Self::File(name), None) => failure.in_file(name),
            (Self::File(name), Some(line)) => failure.in_file(&format!("{name}:{line}")),
            (Self::StandardInput, Some(line)) => failure.in_file(&format!("line {line}")),
        }
    }
}

/// Runs all of `text`, if all of it is SQL.
async fn run_text(conversation: &mut Conversation, text: &str, origin: &Origin) -> Result<()> {
    let (statements, lines) = parse(&conversation.session, text, origin)?;
    let count = statements.len();
    for (index, statement) in statements.into_iter().enumerate() {
        if let Err(failure) = conversation.run_statement(statement).await {
            let failure = origin.name(failure, lines.get(index).copied());
            return Err(if index + 1 < count { failure.before_others() } else { failure });
        }
    }
    Ok(())
}

/// The statements of `text`, and the lines that they begin at; no lines where parser and cutter differ about what the
/// statements are.
fn parse(session: &Session, text: &str, origin: &Origin) -> Result<(Vec<SqlStatement>, Vec<usize>)> {
    let mut cutter = StatementCutter::new();
    cutter.push(text);
    let mut lines = Vec::new();
    let mut look_at = |cut: Cut| {
        lines.extend(cut.line());
        refuse_dot_command(&cut).map_err(|failure| origin.name(failure, cut.line()))
    };
    while let Some(cut) = cutter.next() {
        look_at(cut)?;
    }
    look_at(cutter.rest())?;
    let statements = session.parse(text).map_err(|error| origin.name(error.into(), None))?;
    if statements.len() != lines.len() {
        lines.clear();
    }
    Ok((statements, lines))
}

fn refuse_dot_command(cut: &Cut) -> Result<()> {
    if !cut.is_dot_command() {
        return Ok(());
    }
    Err(Error::input(format!("`{}` is a command of the shell: expected SQL", cut.first_line().trim())).into())
}

/// Runs each statement of standard input as soon as it has come.
async fn run_incoming(conversation: &mut Conversation) -> Result<()> {
    let mut statements =
        IncomingStatements { incoming: Incoming::start(), cutter: StatementCutter::new(), has_ended: false };
    while let Some(cut) = statements.next(conversation).await? {
        let Err(failure) = run_cut(conversation, &cut).await else { continue };
        if !matches!(failure, Failure::OutputClosed { .. }) {
            return Err(failure);
        }
        return Err(if statements.are_over(conversation).await? { failure } else { failure.before_others() });
    }
    Ok(())
}

async fn run_cut(conversation: &mut Conversation, cut: &Cut) -> Result<()> {
    let name = |failure| Origin::StandardInput.name(failure, cut.line());
    refuse_dot_command(cut).map_err(name)?;
    let session = &conversation.session;
    // Once more after an error, for the place that it names to be that in all of the text.
    let statements = session.parse(&cut.text).or_else(|_| session.parse(&cut.in_place()))?;
    conversation.run_statements(statements).await.map_err(name)
}

/// The statements of standard input. Whether there is one in a piece of text is for the parser to say.
struct IncomingStatements {
    incoming: Incoming,
    cutter: StatementCutter,
    /// Whether the text behind the last semicolon has been given out.
    has_ended: bool,
}

impl IncomingStatements {
    async fn next(&mut self, conversation: &mut Conversation) -> Result<Option<Cut>> {
        while !self.has_ended {
            if let Some(cut) = self.cutter.next() {
                return Ok(Some(cut));
            }
            match self.incoming.next(conversation).await? {
                Some(bit) => self.cutter.push(&bit),
                None => {
                    self.has_ended = true;
                    return Ok(Some(self.cutter.rest()));
                }
            }
        }
        Ok(None)
    }

    /// Whether the end has come, and no statement before it. Waits for neither longer than [`END_GRACE`]: a writer may
    /// have nothing more to say for days.
    async fn are_over(&mut self, conversation: &mut Conversation) -> Result<bool> {
        let all_are_empty = async {
            while let Some(cut) = self.next(conversation).await? {
                if !conversation.session.parse(&cut.text).is_ok_and(|statements| statements.is_empty()) {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        timeout(END_GRACE, all_are_empty).await.unwrap_or(Ok(false))
    }
}
