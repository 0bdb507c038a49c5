//! The command line: options, sub-commands, and in which order SQL was given.
//!
//! Owns what is accepted and what is refused as wrong usage. Does not run anything.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use thermocline_budget::parse_bytes;
use thermocline_engine::{Eviction, MAX_THREADS};
use thermocline_hardware::Machine;

use crate::output::Format;

const EXIT_CODES: &str = "\
Without -c, -f or a sub-command: a shell on a terminal, otherwise SQL is read from standard input.
Options of `demo` and `hardware` go after their name.

Each -c, each file of -f (also a pipe that has a name, as in -f <(…)) and standard input that is a
file is read to its end, and nothing of it runs if any of it is not SQL. Of standard input that is a
pipe, also with -f -, each statement runs as soon as its semicolon has come: those before a mistake
have run.

Values: dates, times and durations beyond the calendar (years past 262142) are the whole numbers that are
stored, in the units of the column's type. NaN and infinities are null in JSON, which lacks them.

Exit codes:
    0  everything was answered; also when the reader of the last answer left before its end
    1  the SQL, a file or a setting is wrong
    2  wrong usage of this command
    3  memory or disk is short
    4  a file changed while it was read: run it again
   70  a fault of Thermocline's own: please report it
  130  interrupted (Ctrl-C); `demo` also when it is told to end (SIGTERM, SIGHUP)
  141  the reader of an answer left, and the statements after it did not run; of a pipe, also when
       others could still have come

Examples:
  thermocline -c \"SELECT status, count(*) FROM 'events.ndjson' GROUP BY status\"
  thermocline --memory 4GB --format csv -f report.sql > report.csv
  thermocline demo";

/// Ask SQL questions of NDJSON, CSV and Parquet files. Answers to similar questions come from memory.
#[derive(Debug, Parser)]
#[command(
    name = "thermocline",
    version,
    after_help = EXIT_CODES,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) database: DatabaseArguments,
    /// Run this SQL and exit. May be repeated, and mixed with -f: they run in the order given, up to the first failure
    // A text may begin with a comment.
    #[arg(short = 'c', long = "command", value_name = "SQL", allow_hyphen_values = true)]
    commands: Vec<String>,
    /// Run the SQL in this file and exit; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How rows are printed
    #[arg(long, value_enum, ignore_case = true, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Print each statement's wall time, in seconds, to standard error
    #[arg(long)]
    pub(crate) timer: bool,
    /// Show no progress bar for what takes longer than a second
    #[arg(long)]
    pub(crate) no_progress: bool,
    #[command(subcommand)]
    pub(crate) subcommand: Option<Task>,
}

/// How the database is opened.
#[derive(Debug, Clone, Args)]
pub(crate) struct DatabaseArguments {
    /// Keep tables, views and what spares work the next time in this folder; one command at a time may have it
    /// open, unless all of them open it with --read-only
    #[arg(long, value_name = "DIR")]
    pub(crate) db: Option<PathBuf>,
    /// Change nothing in the folder of --db, which must be there; any number of commands may read it at once
    #[arg(long, alias = "readonly", requires = "db")]
    pub(crate) read_only: bool,
    /// Memory for caches and queries together, such as 4GB, 512MiB or 25% of what the process may have; half of that by
    /// default
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,
    /// The part of it that the caches may have at most; all of it by default
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) cache_memory: Option<u64>,
    /// Threads of a query, up to 1024; one for each core by default
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Which cached results make room for others: recache, recache-as-printed, lru, proteus, vectorwise or monetdb
    #[arg(long, value_name = "POLICY", default_value_t)]
    pub(crate) eviction: Eviction,
}

/// What else than SQL can be asked of the command.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Task {
    /// Generate a small data set, ask a few questions of it cold and cached, and explain the times
    Demo(DemoArguments),
    /// Print what this machine is, and what its memory gives
    Hardware {
        /// Print only what is known without measuring
        #[arg(long)]
        no_calibrate: bool,
    },
}

/// Options of `thermocline demo`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArguments {
    /// TPC-H scale factor: 0.1 is 150,000 orders, some 370 MB in three files
    #[arg(long, value_name = "FACTOR", default_value = "0.1", value_parser = parse_scale)]
    pub(crate) scale: f64,
    /// Write the data to this folder and leave it there, instead of in a temporary one
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// Where the picture of the times goes, in place of what is there
    #[arg(long, value_name = "FILE", default_value = "thermocline-demo.svg")]
    pub(crate) svg: PathBuf,
    #[command(flatten)]
    pub(crate) database: DatabaseArguments,
}

/// A piece of SQL that the command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// Text of a `-c`.
    Command(String),
    /// A file of a `-f`.
    File(PathBuf),
    /// Standard input.
    StandardInput,
}

impl Arguments {
    /// Reads the command line; also returns the SQL asked for with `-c` and `-f`, in the order it was written.
    ///
    /// # Errors
    /// Wrong usage, and requests for help or the version, which are errors to clap.
    pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<(Self, Vec<Source>), clap::Error> {
        let matches = Self::command().try_get_matches_from(arguments)?;
        let arguments = Self::from_arg_matches(&matches)?;
        let positions = |name: &str| matches.indices_of(name).into_iter().flatten().collect::<Vec<_>>();
        let mut sources: Vec<(usize, Source)> = Vec::new();
        for (position, text) in positions("commands").into_iter().zip(&arguments.commands) {
            sources.push((position, Source::Command(text.clone())));
        }
        for (position, path) in positions("files").into_iter().zip(&arguments.files) {
            let source = if path.as_os_str() == "-" { Source::StandardInput } else { Source::File(path.clone()) };
            sources.push((position, source));
        }
        sources.sort_by_key(|(position, _)| *position);
        let sources: Vec<Source> = sources.into_iter().map(|(_, source)| source).collect();
        if sources.iter().filter(|source| **source == Source::StandardInput).count() > 1 {
            return Err(Self::command()
                .error(ErrorKind::ArgumentConflict, "standard input can be read only once: `-f -` is there twice"));
        }
        Ok((arguments, sources))
    }
}

fn parse_size(text: &str) -> Result<u64, String> {
    parse_bytes(text, Machine::detect().usable_memory_bytes()).map_err(|error| error.to_string())
}

fn parse_threads(text: &str) -> Result<NonZeroUsize, String> {
    match text.parse::<NonZeroUsize>() {
        Ok(threads) if threads.get() <= MAX_THREADS => Ok(threads),
        _ => Err(format!("expected a whole number from 1 to {MAX_THREADS}")),
    }
}

/// From some dozen orders to more than most disks hold.
fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if (0.0001..=1000.0).contains(&scale) => Ok(scale),
        _ => Err("expected a number from 0.0001 to 1000, such as 0.1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn read(line: &[&str]) -> Result<(Arguments, Vec<Source>), clap::Error> {
        Arguments::read(std::iter::once("thermocline").chain(line.iter().copied()).map(OsString::from))
    }

    #[test]
    fn the_declaration_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn commands_and_files_run_in_the_order_they_were_written() {
        let (_, sources) = read(&["-c", "one", "-f", "two.sql", "-c", "three", "-f", "-"]).unwrap();
        assert_eq!(
            sources,
            [
                Source::Command("one".into()),
                Source::File("two.sql".into()),
                Source::Command("three".into()),
                Source::StandardInput
            ]
        );
    }

    #[test]
    fn sizes_have_units_threads_are_not_zero_and_policies_have_names() {
        let (arguments, _) = read(&["--memory", "4GB", "--cache-memory", "512MiB", "--threads", "3"]).unwrap();
        assert_eq!(arguments.database.memory, Some(4_000_000_000));
        assert_eq!(arguments.database.cache_memory, Some(512 << 20));
        assert_eq!(arguments.database.threads, NonZeroUsize::new(3));
        assert_eq!(arguments.database.eviction, Eviction::ReCache);
        assert_eq!(read(&["--eviction", "lru"]).unwrap().0.database.eviction, Eviction::LeastRecentlyUsed);
        let unknown = read(&["--eviction", "mru"]).unwrap_err();
        assert!(unknown.exit_code() == 2 && unknown.to_string().contains("lru, proteus"), "{unknown}");
        assert_eq!(read(&["--memory", "4"]).unwrap_err().exit_code(), 2);
        assert_eq!(read(&["--threads", "1024"]).unwrap().0.database.threads, NonZeroUsize::new(1024));
        for threads in ["0", "1025", "100000", "99999999999999999999"] {
            let refused = read(&["--threads", threads]).unwrap_err();
            assert!(refused.exit_code() == 2 && refused.to_string().contains("from 1 to 1024"), "{refused}");
        }
    }

    #[test]
    fn formats_are_known_in_any_case() {
        for name in ["csv", "CSV", "Csv"] {
            assert_eq!(read(&["--format", name]).unwrap().0.format, Format::Csv, "{name}");
        }
        assert_eq!(read(&["--format", "tsv"]).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn sql_may_begin_with_a_comment() {
        let (_, sources) = read(&["-c", "-- a\nSELECT 1", "--command", "--b", "--timer"]).unwrap();
        assert_eq!(sources, [Source::Command("-- a\nSELECT 1".into()), Source::Command("--b".into())]);
    }

    #[test]
    fn only_a_folder_can_be_read_alone() {
        assert_eq!(read(&["--read-only"]).unwrap_err().exit_code(), 2);
        for option in ["--read-only", "--readonly"] {
            assert!(read(&["--db", "d", option]).unwrap().0.database.read_only);
        }
    }

    #[test]
    fn options_of_sql_do_not_go_with_a_sub_command() {
        assert_eq!(read(&["--memory", "1GB", "demo"]).unwrap_err().exit_code(), 2);
        assert_eq!(read(&["-c", "SELECT 1", "hardware"]).unwrap_err().exit_code(), 2);
        let (arguments, _) = read(&["demo", "--memory", "1GB", "--scale", "0.01"]).unwrap();
        let Some(Task::Demo(demo)) = arguments.subcommand else { panic!("{arguments:?}") };
        assert_eq!((demo.database.memory, demo.scale), (Some(1_000_000_000), 0.01));
    }

    #[test]
    fn a_scale_that_makes_no_data_is_refused() {
        for scale in ["0", "-1", "nan", "inf", "much", "1e-9"] {
            assert_eq!(read(&["demo", "--scale", scale]).unwrap_err().exit_code(), 2, "{scale}");
        }
    }

    #[test]
    fn standard_input_is_read_once() {
        assert_eq!(read(&["-f", "-", "-f", "-"]).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn help_says_how_csv_writes_null_and_its_exception() {
        let help = read(&["--help"]).unwrap_err().to_string();
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("NULL is empty, but \"\" where there is one column"), "{help}");
    }

    #[test]
    fn help_names_every_exit_code() {
        let help = read(&["--help"]).unwrap_err();
        assert_eq!(help.exit_code(), 0);
        let text = help.to_string();
        for code in ["0  ", "1  ", "2  ", "3  ", "4  ", "70  ", "130  ", "141  "] {
            assert!(text.contains(code), "{text}");
        }
    }
}
