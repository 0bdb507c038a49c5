#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod changes;
mod crashes;
mod damage;
mod faults;
mod forgetful;
mod segments;
mod story;
