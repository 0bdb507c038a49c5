//! The `lab` command: experiments around the engine. Generates data sets, replays cache traces; see `lab --help`.
//!
//! Owns what is needed to measure Thermocline and is not shipped with it. Owns no engine code; the data sets come from
//! `thermocline-tpch`, which the shipped command uses too.
#![allow(clippy::print_stdout, reason = "a command reports on standard output")]
#![allow(clippy::disallowed_methods, reason = "the lab measures, so it reads real clocks")]

mod replay;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Instant;

use clap::{Parser, Subcommand};
use thermocline_tpch::{DataSet, TextFormat, TpchTable, standard_text, write_nested_orders, write_table};

/// Experiments around Thermocline.
#[derive(Parser)]
#[command(name = "lab", version)]
struct Command {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// Write a data set.
    #[command(subcommand)]
    Generate(Generate),
    /// What other eviction policies, or more or less memory, would have made of a recorded cache trace.
    Replay(replay::ReplayArguments),
}

#[derive(Subcommand)]
enum Generate {
    /// The eight TPC-H tables, one file each.
    Tpch {
        /// Scale factor: 1 is about 1 GB.
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// csv (header, commas) or ndjson.
        #[arg(long, default_value = "csv")]
        format: TextFormat,
        /// Folder for the files; made if missing.
        #[arg(long)]
        out: PathBuf,
    },
    /// TPC-H orders with their lineitems as a list, one JSON object a line.
    Nested {
        /// Scale factor: 1 is about 2.58 GB.
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// The file to write.
        #[arg(long)]
        out: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Command::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            #[allow(clippy::print_stderr, reason = "a command reports its errors there")]
            {
                eprintln!("lab: {message}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), String> {
    match command.experiment {
        Experiment::Generate(generate) => write_data(generate),
        Experiment::Replay(arguments) => {
            println!("{}", replay::run(&arguments)?);
            Ok(())
        }
    }
}

fn write_data(generate: Generate) -> Result<(), String> {
    match generate {
        Generate::Tpch { scale, format, out } => {
            let data = data_set(scale)?;
            fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
            for table in TpchTable::ALL {
                let path = out.join(format!("{}.{}", table.name(), format.suffix()));
                write_file(&path, |file| write_table(data, table, format, file))?;
            }
            Ok(())
        }
        Generate::Nested { scale, out } => {
            let data = data_set(scale)?;
            write_file(&out, |file| write_nested_orders(data, file))
        }
    }
}

fn data_set(scale: f64) -> Result<DataSet<'static>, String> {
    if !(scale.is_finite() && scale > 0.0) {
        return Err(format!("--scale is a positive number, not {scale}"));
    }
    let thread_count = available_parallelism().map_or(1, usize::from);
    Ok(DataSet { scale, text: standard_text(), thread_count })
}

/// Creates or replaces `path` and reports size and speed.
fn write_file(path: &Path, write: impl Fn(&mut File) -> std::io::Result<u64>) -> Result<(), String> {
    let start = Instant::now();
    let written_bytes = File::create(path)
        .and_then(|mut file| {
            let written_bytes = write(&mut file)?;
            file.flush()?;
            Ok(written_bytes)
        })
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{}: {written_bytes} bytes in {seconds:.2} s ({:.0} MB/s)",
        path.display(),
        written_bytes as f64 / 1e6 / seconds
    );
    Ok(())
}
