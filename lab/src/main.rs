//! The `lab` command: experiments around the engine. Generates data sets, replays cache traces; see `lab --help`.
//!
//! Owns what is needed to measure Thermocline and is not shipped with it. Owns no engine code; TPC-H's data comes from
//! `thermocline-tpch`, which the shipped command uses too, the Star Schema Benchmark's from `thermocline-ssb`.
#![allow(clippy::print_stdout, reason = "a command reports on standard output")]
#![allow(clippy::disallowed_methods, reason = "the lab measures, so it reads real clocks")]

mod generate;
mod replay;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    Generate(generate::Generate),
    /// What other eviction policies, or more or less memory, would have made of a recorded cache trace.
    Replay(replay::ReplayArguments),
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
        Experiment::Generate(generate) => generate::run(generate),
        Experiment::Replay(arguments) => {
            println!("{}", replay::run(&arguments)?);
            Ok(())
        }
    }
}
