//! Commands of the shell itself, which begin with a dot and need no semicolon; and the words that people type who come
//! from other shells.

use clap::ValueEnum;

use crate::output::Format;

/// What `.help` prints.
pub(super) const HELP: &str = "\
.help                 this text
.tables               tables and views
.memory               the memory budget and what holds it
.timer on|off         print each statement's wall time
.format table|csv|json|markdown
.quit                 leave (so do exit, quit, \\q and Ctrl-D)

SQL ends with a semicolon and may have lines; Ctrl-C or Ctrl-D on one of them drops what was entered, as an error does.
Files are named in single quotes: SELECT * FROM 'events.ndjson' LIMIT 5;
Why an answer came from where it came:  EXPLAIN CACHE SELECT …;  SELECT * FROM thermocline.decisions;
Tab completes keywords, tables, columns, and paths inside quotes. Ctrl-C cancels a query or clears the line.";

/// Words that are commands without a dot where a statement would begin; none begins SQL.
const WORDS: [&str; 4] = ["help", "exit", "quit", "\\q"];

/// Whether a line that begins no statement's middle is a command.
pub(super) fn is_command(line: &str) -> bool {
    line.trim_start().starts_with('.') || WORDS.iter().any(|word| word.eq_ignore_ascii_case(bare(line)))
}

/// Without what surrounds it: semicolons are a habit.
fn bare(line: &str) -> &str {
    line.trim().trim_end_matches(';').trim_end()
}

/// A command of the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DotCommand {
    Help,
    Quit,
    Tables,
    Memory,
    Timer(bool),
    Format(Format),
}

impl DotCommand {
    /// Names for completion.
    pub(super) const NAMES: [&'static str; 6] = [".help", ".tables", ".memory", ".timer", ".format", ".quit"];

    /// Reads a line that is a command.
    ///
    /// # Errors
    /// What is wrong with it, as a message.
    pub(super) fn parse(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = bare(line).split_whitespace().collect();
        match words.as_slice() {
            [".help"] => Ok(Self::Help),
            [word] if word.eq_ignore_ascii_case("help") => Ok(Self::Help),
            [".quit" | ".exit"] => Ok(Self::Quit),
            [word] if WORDS.iter().any(|known| known.eq_ignore_ascii_case(word)) => Ok(Self::Quit),
            [".tables"] => Ok(Self::Tables),
            [".memory"] => Ok(Self::Memory),
            [".timer", "on"] => Ok(Self::Timer(true)),
            [".timer", "off"] => Ok(Self::Timer(false)),
            [".timer", ..] => Err(".timer is followed by `on` or `off`".to_owned()),
            [".format", name] => Format::from_str(name, true)
                .map(Self::Format)
                .map_err(|_| format!("there is no format `{name}`: it is `table`, `csv`, `json` or `markdown`")),
            [".format", ..] => Err(".format is followed by `table`, `csv`, `json` or `markdown`".to_owned()),
            [name, ..] => Err(format!("there is no command `{name}` of this form: see .help")),
            [] => Err("there is no command: see .help".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_with_their_words() {
        assert_eq!(DotCommand::parse(".quit"), Ok(DotCommand::Quit));
        assert_eq!(DotCommand::parse("  .timer   on ;"), Ok(DotCommand::Timer(true)));
        assert_eq!(DotCommand::parse(".format CSV"), Ok(DotCommand::Format(Format::Csv)));
    }

    #[test]
    fn words_of_other_shells_are_commands_alone() {
        for (line, command) in [
            ("exit", DotCommand::Quit),
            (" QUIT; ", DotCommand::Quit),
            ("\\q", DotCommand::Quit),
            ("help", DotCommand::Help),
        ] {
            assert!(is_command(line), "{line}");
            assert_eq!(DotCommand::parse(line), Ok(command));
        }
        assert!(!is_command("exit now") && !is_command("SELECT 1;") && !is_command(""));
    }

    #[test]
    fn what_is_wrong_is_told_with_what_would_be_right() {
        assert!(DotCommand::parse(".timer maybe").is_err_and(|message| message.contains("`off`")));
        assert!(DotCommand::parse(".format xml").is_err_and(|message| message.contains("`xml`")));
        assert!(DotCommand::parse(".nothing").is_err_and(|message| message.contains(".help")));
    }

    #[test]
    fn every_name_offered_by_completion_is_known() {
        for name in DotCommand::NAMES {
            let known = ["", " on", " csv"].iter().any(|word| DotCommand::parse(&format!("{name}{word}")).is_ok());
            assert!(known && HELP.contains(name), "{name}");
        }
    }
}
