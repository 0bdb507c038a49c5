//! `lab generate`: data sets as files.
//!
//! Owns the command, and how numbered records become a file. Each data set has a file beside this one that writes one
//! record; TPC-H's come from `thermocline-tpch`, the Star Schema Benchmark's from `thermocline-ssb`.
//!
//! Invariants: a record depends on the seed, its number and its data set's options, never on threads or on how many
//! records are written; memory stays at some parts a thread, however large the file.

mod draws;
mod json;
mod lists;
mod parquet_file;
mod prose;
mod spam;
mod ssb;
#[cfg(test)]
mod tests;
mod yelp;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Instant;

use clap::{Args, Subcommand};
use thermocline_tpch::{DataSet, TextFormat, TpchTable, standard_text, write_nested_orders, write_parts, write_table};

use draws::Draws;

/// What to write.
#[derive(Subcommand)]
pub(crate) enum Generate {
    /// TPC-H tables, one file each.
    Tpch {
        /// Scale factor: 1 is about 1 GB.
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// csv (header, commas) or ndjson.
        #[arg(long, default_value = "csv")]
        format: TextFormat,
        /// A table's name; may be repeated. All eight when absent.
        #[arg(long, value_parser = table_of)]
        table: Vec<TpchTable>,
        /// Folder for the files; made if missing.
        #[arg(long)]
        out: PathBuf,
    },
    /// TPC-H orders with their lineitems as a list, one JSON object a line.
    #[command(visible_alias = "orders")]
    Nested {
        /// Scale factor: 1 is about 2.58 GB.
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// The file to write.
        #[arg(long)]
        out: PathBuf,
    },
    /// The five tables of the Star Schema Benchmark, one Parquet file each.
    Ssb(ssb::SsbArguments),
    /// Orders with lists of one length and uniform numbers, one JSON object a line.
    Lists {
        /// Elements of every list.
        #[arg(long)]
        elements: u64,
        #[command(flatten)]
        records: Records,
    },
    /// Spam e-mails: nested, with optional fields, about 1.1 KB each, one JSON object a line.
    Spam(Records),
    /// What was found out about spam e-mails, about 55 bytes a line of CSV.
    SpamCsv {
        /// E-mails that the lines are about; 3 for 40 lines when absent.
        #[arg(long)]
        mails: Option<u64>,
        #[command(flatten)]
        records: Records,
    },
    /// Businesses as in Yelp's data, about 1 KB each, one JSON object a line.
    YelpBusiness(Records),
    /// Users as in Yelp's data, with long lists, about 1.4 KB each, one JSON object a line.
    YelpUser(Records),
    /// Reviews as in Yelp's data, about 0.8 KB each, one JSON object a line.
    YelpReview(Records),
}

/// How many records of a data set, of which seed, and where to.
#[derive(Args)]
pub(crate) struct Records {
    /// Records to write.
    #[arg(long)]
    records: u64,
    /// Other seeds, other values.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The file to write.
    #[arg(long)]
    out: PathBuf,
}

fn table_of(name: &str) -> Result<TpchTable, String> {
    TpchTable::ALL.into_iter().find(|table| table.name() == name).ok_or_else(|| {
        let names: Vec<&str> = TpchTable::ALL.iter().map(|table| table.name()).collect();
        format!("the table is one of {}, not `{name}`", names.join(", "))
    })
}

/// Writes what is asked for and reports sizes and speeds.
pub(crate) fn run(generate: Generate) -> Result<(), String> {
    match generate {
        Generate::Tpch { scale, format, table, out } => {
            let data = data_set(scale)?;
            fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
            let tables = if table.is_empty() { TpchTable::ALL.to_vec() } else { table };
            for table in tables {
                let path = out.join(format!("{}.{}", table.name(), format.suffix()));
                write_file(&path, |file| write_table(data, table, format, file))?;
            }
            Ok(())
        }
        Generate::Nested { scale, out } => {
            let data = data_set(scale)?;
            write_file(&out, |file| write_nested_orders(data, file))
        }
        Generate::Ssb(arguments) => ssb::run(&arguments),
        Generate::Lists { elements, records } => write_drawn(DataKind::Lists { element_count: elements }, &records),
        Generate::Spam(records) => write_drawn(DataKind::Spam, &records),
        Generate::SpamCsv { mails, records } => {
            let default_count = (records.records as f64 / spam::LINES_PER_MAIL).ceil() as u64;
            let mail_count = mails.unwrap_or(default_count);
            if mail_count == 0 && records.records > 0 {
                return Err("--mails must be at least 1: every line is about a mail".to_owned());
            }
            write_drawn(DataKind::SpamCsv { mail_count }, &records)
        }
        Generate::YelpBusiness(records) => write_drawn(DataKind::YelpBusiness, &records),
        Generate::YelpUser(records) => write_drawn(DataKind::YelpUser, &records),
        Generate::YelpReview(records) => write_drawn(DataKind::YelpReview, &records),
    }
}

/// A data set drawn record by record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataKind {
    Lists { element_count: u64 },
    Spam,
    SpamCsv { mail_count: u64 },
    YelpBusiness,
    YelpUser,
    YelpReview,
}

impl DataKind {
    /// Keeps the draws of data sets apart, so that equal numbers in two files mean nothing.
    fn stream(self) -> u64 {
        match self {
            Self::Lists { .. } => 1,
            Self::Spam => 2,
            Self::SpamCsv { .. } => 3,
            Self::YelpBusiness => 4,
            Self::YelpUser => 5,
            Self::YelpReview => 6,
        }
    }

    /// Bytes of a record, roughly, to cut the file into parts.
    fn record_bytes(self) -> u64 {
        match self {
            Self::Lists { element_count } => 100 + 150 * element_count,
            Self::Spam | Self::YelpBusiness | Self::YelpUser | Self::YelpReview => 1_000,
            Self::SpamCsv { .. } => 55,
        }
    }

    /// Appends record `index`, with its line's end.
    fn push_record(self, out: &mut Vec<u8>, draws: &mut Draws, index: u64) {
        match self {
            Self::Lists { element_count } => lists::push_order(out, draws, index, element_count),
            Self::Spam => spam::push_mail(out, draws, index),
            Self::SpamCsv { mail_count } => return spam::push_verdict(out, draws, mail_count),
            Self::YelpBusiness => yelp::push_business(out, draws),
            Self::YelpUser => yelp::push_user(out, draws),
            Self::YelpReview => yelp::push_review(out, draws),
        }
        out.push(b'\n');
    }
}

/// Text of one part: big enough for one write, small enough for each thread to hold a few.
const PART_BYTES: u64 = 1 << 20;

/// Writes `record_count` records of `seed` and returns the bytes written.
fn write_records(
    kind: DataKind,
    record_count: u64,
    seed: u64,
    thread_count: usize,
    out: &mut impl Write,
) -> io::Result<u64> {
    let mut written_bytes = 0;
    if matches!(kind, DataKind::SpamCsv { .. }) {
        out.write_all(spam::CSV_HEADER)?;
        written_bytes += spam::CSV_HEADER.len() as u64;
    }
    let part_records = (PART_BYTES / kind.record_bytes()).max(1);
    let part_count = record_count.div_ceil(part_records) as usize;
    written_bytes += write_parts(out, part_count, thread_count, |part, buffer| {
        let first = part as u64 * part_records;
        for index in first..record_count.min(first + part_records) {
            let mut draws = Draws::new(seed, kind.stream(), index);
            kind.push_record(buffer, &mut draws, index);
        }
    })?;
    Ok(written_bytes)
}

fn write_drawn(kind: DataKind, records: &Records) -> Result<(), String> {
    write_file(&records.out, |file| write_records(kind, records.records, records.seed, threads(), file))
}

fn threads() -> usize {
    available_parallelism().map_or(1, usize::from)
}

fn data_set(scale: f64) -> Result<DataSet<'static>, String> {
    if !(scale.is_finite() && scale > 0.0) {
        return Err(format!("--scale is a positive number, not {scale}"));
    }
    Ok(DataSet { scale, text: standard_text(), thread_count: threads() })
}

/// Creates or replaces `path` and reports size and speed.
fn write_file(path: &Path, write: impl Fn(&mut File) -> io::Result<u64>) -> Result<(), String> {
    let start = Instant::now();
    let written_bytes = File::create(path)
        .and_then(|mut file| {
            let written_bytes = write(&mut file)?;
            file.flush()?;
            Ok(written_bytes)
        })
        .map_err(|error| format!("{}: {error}", path.display()))?;
    report(path, written_bytes, start);
    Ok(())
}

/// Says how large a file became and how fast.
fn report(path: &Path, written_bytes: u64, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{}: {written_bytes} bytes in {seconds:.2} s ({:.0} MB/s)",
        path.display(),
        written_bytes as f64 / 1e6 / seconds
    );
}
