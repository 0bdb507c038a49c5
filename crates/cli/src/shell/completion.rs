//! What Tab offers: keywords, tables, columns, and files inside single quotes.
//!
//! Columns are those of the tables in the catalog and of the files that the statement names. Their names are asked of
//! the session; a name that takes longer than [`LOOKUP_TIMEOUT`] is not waited for.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use thermocline_engine::Session;
use thermocline_engine::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use thermocline_engine::arrow::compute::cast;
use thermocline_engine::arrow::datatypes::DataType;
use tokio::runtime::Handle;

use super::dot_command::DotCommand;
use super::keywords;
use crate::sql_text::{Kind, pieces, quoted_paths};

/// Longer than looking at a local file's head takes, shorter than a user wonders.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(500);

/// Names that a statement can use.
pub(super) trait Names {
    /// Tables and views: the parts of each name, as many as it takes.
    fn tables(&self) -> Vec<Vec<String>>;
    /// Columns of all tables.
    fn columns(&self) -> Vec<String>;
    /// Columns of the file or folder at `path`.
    fn columns_of_file(&self, path: &str) -> Vec<String>;
}

/// Names as a session knows them.
pub(super) struct SessionNames {
    pub(super) session: Session,
    /// Where look-ups run.
    pub(super) workers: Handle,
}

impl SessionNames {
    /// The strings in the rows of a query's answer, without NULLs; none if it fails or takes too long.
    fn ask(&self, sql: String) -> Vec<Vec<String>> {
        let session = self.session.clone();
        self.wait(async move {
            let mut rows = Vec::new();
            for batch in session.sql(&sql).await?.collect().await? {
                // Whatever string type the catalog uses.
                let columns: Vec<ArrayRef> =
                    batch.columns().iter().filter_map(|column| cast(column, &DataType::Utf8).ok()).collect();
                let columns: Vec<&StringArray> = columns.iter().map(|column| column.as_string()).collect();
                for row in 0..batch.num_rows() {
                    let strings = columns.iter().filter(|column| column.is_valid(row));
                    rows.push(strings.map(|column| column.value(row).to_owned()).collect());
                }
            }
            Ok(rows)
        })
    }

    fn wait<T: Send + 'static>(
        &self,
        lookup: impl Future<Output = thermocline_engine::Result<Vec<T>>> + Send + 'static,
    ) -> Vec<T> {
        let (sender, receiver) = mpsc::channel();
        let task = self.workers.spawn(async move {
            // Nobody waits any more for what comes too late.
            let _ = sender.send(lookup.await);
        });
        match receiver.recv_timeout(LOOKUP_TIMEOUT) {
            Ok(names) => names.unwrap_or_default(),
            Err(_) => {
                task.abort();
                Vec::new()
            }
        }
    }
}

impl Names for SessionNames {
    fn tables(&self) -> Vec<Vec<String>> {
        self.ask(
            "SELECT CASE WHEN table_schema <> 'public' THEN table_schema END, table_name \
             FROM information_schema.tables"
                .to_owned(),
        )
    }

    fn columns(&self) -> Vec<String> {
        self.ask(
            "SELECT DISTINCT column_name FROM information_schema.columns \
             WHERE table_schema <> 'information_schema'"
                .to_owned(),
        )
        .concat()
    }

    fn columns_of_file(&self, path: &str) -> Vec<String> {
        let session = self.session.clone();
        let sql = format!("SELECT * FROM '{}' LIMIT 0", path.replace('\'', "''"));
        self.wait(async move {
            let schema = session.sql(&sql).await?.schema();
            Ok(schema.fields().iter().map(|field| field.name().clone()).collect())
        })
    }
}

/// Where the word to be completed starts, and what could stand there, sorted, each once.
pub(super) fn complete(line: &str, position: usize, names: &dyn Names) -> (usize, Vec<String>) {
    let typed = &line[..position];
    if typed.trim_start().starts_with('.') && !typed.trim_start().contains(char::is_whitespace) {
        let start = typed.len() - typed.trim_start().len();
        return (start, matching(DotCommand::NAMES.iter().map(ToString::to_string), &typed[start..]));
    }
    match pieces(typed).last() {
        Some(piece) if piece.kind == Kind::Text && !piece.closed && typed[piece.start..].starts_with('\'') => {
            let path = &typed[piece.start + 1..];
            // Only the last part of the path is replaced.
            let start = piece.start + 1 + path.rfind('/').map_or(0, |slash| slash + 1);
            (start, files(path))
        }
        Some(piece) if piece.kind != Kind::Name && !piece.closed => (position, Vec::new()),
        last => {
            // A quote that is open belongs to the word.
            let end = last.filter(|piece| !piece.closed).map_or(position, |piece| piece.start);
            let start = typed[..end]
                .char_indices()
                .rev()
                .take_while(|(_, c)| c.is_alphanumeric() || *c == '_' || *c == '.')
                .last()
                .map_or(end, |(index, _)| index);
            word(line, start, &typed[start..], names)
        }
    }
}

fn word(line: &str, start: usize, typed: &str, names: &dyn Names) -> (usize, Vec<String>) {
    let code = typed.find(['"', '`']).map_or(typed, |quote| &typed[..quote]);
    let prefix = &typed.replace(['"', '`'], "");
    if prefix.is_empty() {
        return (start, Vec::new());
    }
    let tables = names.tables().into_iter().map(|parts| {
        let parts: Vec<String> = parts.into_iter().map(in_quotes).collect();
        parts.join(".")
    });
    // After `alias.` columns are meant; the alias itself stays.
    let dot = code.rfind('.').map_or(0, |dot| dot + 1);
    let mut columns = names.columns();
    for path in quoted_paths(line) {
        columns.extend(names.columns_of_file(&path));
    }
    let mut found = matching(tables, prefix);
    if dot == 0 {
        if code == typed {
            found.extend(keywords::starting_with(prefix));
        }
        found.extend(matching(columns.into_iter().map(in_quotes), prefix));
    } else if found.is_empty() {
        return (start + dot, matching(columns.into_iter().map(in_quotes), &prefix[dot..]));
    }
    found.sort();
    found.dedup();
    (start, found)
}

/// A name that SQL would read differently as it stands goes in double quotes.
fn in_quotes(name: String) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !keywords::is_keyword(&name);
    if is_plain { name } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Those that begin with `prefix` (their quotes aside, in any case), sorted, each once.
fn matching(names: impl Iterator<Item = String>, prefix: &str) -> Vec<String> {
    let prefix = prefix.to_lowercase();
    let mut found: Vec<String> =
        names.filter(|name| name.replace('"', "").to_lowercase().starts_with(&prefix)).collect();
    found.sort();
    found.dedup();
    found
}

/// The last parts of paths that begin as `typed` does. Folders end with a slash; hidden files must be asked for.
fn files(typed: &str) -> Vec<String> {
    let (folder, prefix) = typed
        .rsplit_once('/')
        .map_or(("", typed), |(folder, prefix)| (if folder.is_empty() { "/" } else { folder }, prefix));
    let Ok(entries) = std::fs::read_dir(expand_home(folder)) else { return Vec::new() };
    let mut found: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_shown = name.starts_with(prefix) && (!name.starts_with('.') || prefix.starts_with('.'));
            // What a link points to counts.
            let is_folder = || std::fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_dir());
            is_shown.then(|| if is_folder() { format!("{name}/") } else { name }.replace('\'', "''"))
        })
        .collect();
    found.sort();
    found
}

fn expand_home(folder: &str) -> PathBuf {
    match (folder.strip_prefix('~'), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            Path::new(&home).join(rest.trim_start_matches('/'))
        }
        _ if folder.is_empty() => PathBuf::from("."),
        _ => PathBuf::from(folder),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    struct Fixed;

    impl Names for Fixed {
        fn tables(&self) -> Vec<Vec<String>> {
            let names =
                [&["events"][..], &["thermocline", "decisions"], &["My Tables"], &["select"], &["raw", "Old.Days"]];
            names.iter().map(|parts| parts.iter().map(ToString::to_string).collect()).collect()
        }
        fn columns(&self) -> Vec<String> {
            vec!["event_time".into(), "Mixed Case".into(), "order".into()]
        }
        fn columns_of_file(&self, path: &str) -> Vec<String> {
            if path == "a.ndjson" { vec!["evil".into()] } else { Vec::new() }
        }
    }

    fn at_end(line: &str) -> (usize, Vec<String>) {
        complete(line, line.len(), &Fixed)
    }

    #[test]
    fn words_are_keywords_tables_and_columns() {
        assert_eq!(
            at_end("SELECT e"),
            (
                7,
                ["else", "end", "event_time", "events", "except", "exists", "explain", "external"]
                    .map(String::from)
                    .to_vec()
            )
        );
        assert_eq!(at_end("SELECT * FROM thermo"), (14, vec!["thermocline.decisions".to_owned()]));
    }

    #[test]
    fn columns_of_the_files_a_statement_names_are_offered() {
        let line = "SELECT evi FROM 'a.ndjson'";
        assert_eq!(complete(line, 10, &Fixed), (7, vec!["evil".to_owned()]));
        assert_eq!(complete("SELECT evi FROM 'b.ndjson'", 10, &Fixed).1, Vec::<String>::new());
    }

    #[test]
    fn names_that_need_quotes_get_them_and_aliases_stay() {
        assert_eq!(at_end("SELECT mixed"), (7, vec!["\"Mixed Case\"".to_owned()]));
        assert_eq!(at_end("SELECT a.ord"), (9, vec!["\"order\"".to_owned()]));
        assert_eq!(at_end("SELECT * FROM my"), (14, vec!["\"My Tables\"".to_owned()]));
        assert_eq!(at_end("SELECT * FROM sel"), (14, vec!["\"select\"".to_owned(), "select".to_owned()]));
        for typed in ["raw", "raw.o", "raw.\"o"] {
            assert_eq!(at_end(&format!("SELECT * FROM {typed}")), (14, vec!["raw.\"Old.Days\"".to_owned()]));
        }
    }

    #[test]
    fn a_quote_that_is_open_is_that_of_the_name() {
        assert_eq!(at_end("SELECT \"mixed c"), (7, vec!["\"Mixed Case\"".to_owned()]));
        assert_eq!(at_end("SELECT a.\"ord"), (9, vec!["\"order\"".to_owned()]));
        assert_eq!(at_end("SELECT * FROM \"sel"), (14, vec!["\"select\"".to_owned()]));
        assert_eq!(at_end("SELECT \"").1, Vec::<String>::new());
    }

    #[test]
    fn dot_commands_complete_at_the_beginning_only() {
        assert_eq!(at_end(".ti"), (0, vec![".timer".to_owned()]));
        assert_eq!(at_end("SELECT .ti").1, Vec::<String>::new());
    }

    #[test]
    fn inside_single_quotes_files_are_offered() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["events.ndjson", "events.csv", ".hidden", "it's.csv"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("ever")).unwrap();
        let offered = |typed: &str| {
            let line = format!("SELECT * FROM '{}/{typed}", folder.path().display());
            let (start, found) = at_end(&line);
            assert_eq!(start, line.len() - typed.len());
            found
        };
        assert_eq!(offered("eve"), ["events.csv", "events.ndjson", "ever/"]);
        assert_eq!(offered("it"), ["it''s.csv"]);
        assert_eq!(offered("."), [".hidden"]);
        assert!(!offered("").contains(&".hidden".to_owned()));
    }

    #[test]
    fn comments_are_left_alone() {
        assert_eq!(at_end("-- sel").1, Vec::<String>::new());
        assert_eq!(at_end("SELECT $$sel").1, Vec::<String>::new());
    }
}
