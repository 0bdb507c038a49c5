//! What is typed or pasted, line by line: commands of the shell, and statements as their semicolons come.

use super::dot_command;
use crate::statement_cutter::StatementCutter;

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A command of the shell.
    Command(String),
    /// SQL that ends with a semicolon.
    Statement(String),
}

/// The lines of a statement that has not ended.
pub(super) struct Entry {
    cutter: StatementCutter,
    lines: String,
}

impl Entry {
    pub(super) fn new() -> Self {
        Self { cutter: StatementCutter::new(), lines: String::new() }
    }

    /// The lines so far of a statement that goes on; empty where a new one would begin.
    pub(super) fn lines(&self) -> &str {
        &self.lines
    }

    /// Takes one line, or several that were pasted, and returns what they ask for, in order; and all that was entered
    /// for it, once nothing of it is open.
    pub(super) fn take(&mut self, text: &str) -> (Vec<Step>, Option<String>) {
        let mut steps = Vec::new();
        for line in text.split('\n') {
            if !self.cutter.is_open() && dot_command::is_command(line) {
                steps.push(Step::Command(line.to_owned()));
                continue;
            }
            self.cutter.push(line);
            self.cutter.push("\n");
            while let Some(cut) = self.cutter.next() {
                if cut.line().is_some() {
                    steps.push(Step::Statement(cut.text.trim_start().to_owned()));
                }
            }
        }
        self.lines.push_str(text);
        if self.cutter.is_open() {
            self.lines.push('\n');
            return (steps, None);
        }
        let entered = std::mem::replace(self, Self::new()).lines;
        (steps, Some(entered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(text: &str) -> Step {
        Step::Statement(text.to_owned())
    }

    #[test]
    fn a_statement_may_have_lines_and_a_line_statements() {
        let mut entry = Entry::new();
        assert_eq!(entry.take("SELECT 1"), (vec![], None));
        assert_eq!(entry.lines(), "SELECT 1\n");
        assert_eq!(
            entry.take(".5; SELECT 2; SELECT"),
            (vec![statement("SELECT 1\n.5;"), statement("SELECT 2;")], None)
        );
        let whole = "SELECT 1\n.5; SELECT 2; SELECT\n3;".to_owned();
        assert_eq!(entry.take("3;"), (vec![statement("SELECT\n3;")], Some(whole)));
        assert_eq!(entry.lines(), "");
    }

    #[test]
    fn pasted_sql_and_commands_are_told_apart() {
        let text = "-- figures\n.timer on\nSELECT 'a;\n.quit';\nhelp\n  .tables\n";
        let steps = vec![
            Step::Command(".timer on".to_owned()),
            statement("-- figures\nSELECT 'a;\n.quit';"),
            Step::Command("help".to_owned()),
            Step::Command("  .tables".to_owned()),
        ];
        assert_eq!(Entry::new().take(text), (steps, Some(text.to_owned())));
    }

    #[test]
    fn strings_in_dollars_and_with_escapes_hold_lines_together() {
        let mut entry = Entry::new();
        assert_eq!(entry.take("SELECT $$;"), (vec![], None));
        assert_eq!(entry.take("DROP TABLE t;"), (vec![], None));
        assert_eq!(entry.take("$$;").0, [statement("SELECT $$;\nDROP TABLE t;\n$$;")]);
        assert_eq!(entry.take(r"SELECT E'it\'s;"), (vec![], None));
        assert_eq!(entry.take("';").0, [statement("SELECT E'it\\'s;\n';")]);
    }

    #[test]
    fn remarks_and_blanks_ask_for_nothing() {
        for line in ["", "   ", "-- remark; nothing", "/* remark */", ";"] {
            assert_eq!(Entry::new().take(line), (vec![], Some(line.to_owned())), "{line}");
        }
        assert_eq!(Entry::new().take("/* open"), (vec![], None));
    }
}
