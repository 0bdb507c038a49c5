//! The Star Schema Benchmark as Parquet files.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use thermocline_ssb::{DataSet, Table};

use super::parquet_file::write_parquet;

/// How much of it, of which seed, and where to.
#[derive(Args)]
pub(crate) struct SsbArguments {
    /// Scale factor: 1 is about 6,000,000 lines, 0.2 GB.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Other seeds, other values.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for the files; made if missing.
    #[arg(long)]
    out: PathBuf,
    /// Threads that produce and encode rows; as many as there are processors when absent.
    #[arg(long)]
    threads: Option<usize>,
    /// Rows of a row group; of lines, about that many.
    #[arg(long, default_value_t = 1 << 20)]
    row_group_rows: usize,
}

/// Rows produced and encoded at a time: their columns fit into a second-level cache.
const BATCH_ROWS: usize = 8_192;

/// Columns of about as many values as a row group has rows.
const PLAIN_COLUMNS: [&str; 6] =
    ["lo_orderkey", "lo_partkey", "lo_extendedprice", "lo_ordtotalprice", "lo_revenue", "lo_supplycost"];

/// Writes the five files and reports sizes and speeds.
pub(super) fn run(arguments: &SsbArguments) -> Result<(), String> {
    let data = DataSet::new(arguments.scale, arguments.seed).map_err(|error| error.to_string())?;
    if arguments.row_group_rows == 0 {
        return Err("--row-group-rows must be at least 1".to_owned());
    }
    fs::create_dir_all(&arguments.out).map_err(|error| format!("{}: {error}", arguments.out.display()))?;
    for table in Table::ALL {
        let start = Instant::now();
        let path = arguments.out.join(format!("{}.parquet", table.name()));
        let fails = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let group_count = data.row_count(table).div_ceil(arguments.row_group_rows as u64) as usize;
        let thread_count = arguments.threads.unwrap_or_else(super::threads);
        let mut file = File::create(&path).map_err(|error| fails(&error))?;
        let batches = |group| data.batches(table, group, group_count, BATCH_ROWS);
        let written_bytes =
            write_parquet(&mut file, &table.schema(), &PLAIN_COLUMNS, group_count, thread_count, batches)
                .map_err(|error| fails(&error))?;
        super::report(&path, written_bytes, start);
    }
    Ok(())
}
