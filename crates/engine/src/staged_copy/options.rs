//! Options that DataFusion's writers take as they come, and then panic at or are never done with.

use std::fmt::Display;

use datafusion::catalog::Session;
use datafusion::common::config::{ConfigFileType, ConfigOptions, ExecutionOptions, ParquetOptions};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, config_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::dml::CopyTo;
use tokio::sync::Semaphore;

/// Refuses such options of a statement's `COPY … TO`, its own and those of the session.
///
/// # Errors
/// An option that no file can be written with, or that there is not.
pub(crate) fn check_options(statement: &LogicalPlan, session: &dyn Session) -> Result<()> {
    statement.apply(|node| {
        if let LogicalPlan::Copy(copy) = node {
            check_copy(copy, session)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Refuses such settings.
///
/// # Errors
/// A setting that no file can be written with.
pub(crate) fn check_settings(settings: &ConfigOptions) -> Result<()> {
    check_buffer(&settings.execution)?;
    check_parquet("datafusion.execution.parquet.", &settings.execution.parquet)
}

fn check_copy(copy: &CopyTo, session: &dyn Session) -> Result<()> {
    check_buffer(&session.config_options().execution)?;
    if copy.file_type.get_ext() != "parquet" {
        return Ok(());
    }
    // As DataFusion makes them.
    let mut options = session.default_table_options();
    options.set_config_format(ConfigFileType::PARQUET);
    for (name, value) in copy.options.iter().filter(|(name, _)| name.starts_with("format.")) {
        options.set(name, value)?;
    }
    check_parquet("format.", &options.parquet.global)?;
    for (column, options) in &options.parquet.column_specific_options {
        let name = |option: &str| format!("format.{option}::{column}");
        check_fpp(&name("bloom_filter_fpp"), options.bloom_filter_fpp)?;
        check_encoding(&name("encoding"), options.encoding.as_deref())?;
    }
    Ok(())
}

/// Of all writers.
fn check_buffer(options: &ExecutionOptions) -> Result<()> {
    check_positive("datafusion.execution.objectstore_writer_buffer_size", Some(options.objectstore_writer_buffer_size))
}

/// Of the Parquet writer; `prefix` is what stands before the options' names.
fn check_parquet(prefix: &str, options: &ParquetOptions) -> Result<()> {
    for (option, value) in [
        ("write_batch_size", Some(options.write_batch_size)),
        ("data_page_row_count_limit", Some(options.data_page_row_count_limit)),
        ("max_row_group_size", Some(options.max_row_group_size)),
        ("column_index_truncate_length", options.column_index_truncate_length),
        ("statistics_truncate_length", options.statistics_truncate_length),
        ("maximum_parallel_row_group_writers", Some(options.maximum_parallel_row_group_writers)),
        ("maximum_buffered_record_batches_per_stream", Some(options.maximum_buffered_record_batches_per_stream)),
    ] {
        check_positive(&format!("{prefix}{option}"), value)?;
    }
    // What waits for a writer waits in a channel.
    for (option, length) in [
        ("maximum_parallel_row_group_writers", options.maximum_parallel_row_group_writers),
        ("maximum_buffered_record_batches_per_stream", options.maximum_buffered_record_batches_per_stream),
    ] {
        if length > Semaphore::MAX_PERMITS {
            return refused(&format!("{prefix}{option}"), length, format!("at most {}", Semaphore::MAX_PERMITS));
        }
    }
    check_fpp(&format!("{prefix}bloom_filter_fpp"), options.bloom_filter_fpp)?;
    check_encoding(&format!("{prefix}encoding"), options.encoding.as_deref())?;
    let chunking = &options.content_defined_chunking;
    if chunking.enabled {
        let name = |option: &str| format!("{prefix}content_defined_chunking.{option}");
        check_positive(&name("min_chunk_size"), Some(chunking.min_chunk_size))?;
        if chunking.max_chunk_size <= chunking.min_chunk_size {
            let expected = format!("more than min_chunk_size, which is {}", chunking.min_chunk_size);
            return refused(&name("max_chunk_size"), chunking.max_chunk_size, expected);
        }
    }
    Ok(())
}

fn check_positive(name: &str, value: Option<usize>) -> Result<()> {
    if value == Some(0) { refused(name, 0, "1 or more") } else { Ok(()) }
}

/// How often a Bloom filter may be wrong.
fn check_fpp(name: &str, share: Option<f64>) -> Result<()> {
    match share {
        // Not what is no number either.
        Some(share) if !(share > 0.0 && share < 1.0) => {
            refused(name, share, "a number between 0 and 1, neither of them")
        }
        _ => Ok(()),
    }
}

fn check_encoding(name: &str, encoding: Option<&str>) -> Result<()> {
    let is_dictionary = |encoding: &&str| {
        ["plain_dictionary", "rle_dictionary"].iter().any(|dictionary| encoding.eq_ignore_ascii_case(dictionary))
    };
    match encoding.filter(is_dictionary) {
        Some(encoding) => {
            refused(name, encoding, "the encoding of what is in no dictionary; dictionary_enabled has one")
        }
        None => Ok(()),
    }
}

fn refused(name: &str, value: impl Display, expected: impl Display) -> Result<()> {
    config_err!("{name} = '{value}': expected {expected}")
}
