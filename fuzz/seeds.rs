//! Writes what the fuzzers of column pages and segments begin with, since no bytes that come by chance are one: a file for
//! each page and segment of the ordinary tests' corpora, in `corpus/TARGET` of the folder it is run in.

#[path = "../crates/column-store/tests/fuzz_bodies/mod.rs"]
mod fuzz_bodies;

use std::fs;
use std::path::Path;

fn main() -> std::io::Result<()> {
    write("column_page", fuzz_bodies::page::corpus())?;
    write("column_segment", fuzz_bodies::segment::corpus().map(|(file, _)| file))
}

fn write(target: &str, corpus: impl IntoIterator<Item = Vec<u8>>) -> std::io::Result<()> {
    let folder = Path::new("corpus").join(target);
    fs::create_dir_all(&folder)?;
    for (number, bytes) in corpus.into_iter().enumerate() {
        fs::write(folder.join(format!("seed-{number}")), bytes)?;
    }
    Ok(())
}
