//! The built command, as scripts and people use it: answers, formats, errors, exit codes, Ctrl-C, the demo, the shell.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod database;
mod demo;
mod errors;
mod file_systems;
mod interrupts;
mod queries;
mod run;
mod shell;
