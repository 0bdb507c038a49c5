//! How a raw table is declared: its format, and the options of `CREATE EXTERNAL TABLE … OPTIONS (…)`.

use std::collections::HashMap;
use std::fmt::Write;

use datafusion::common::{Result, plan_err};
use thermocline_medium::Compression;
use thermocline_operator_cache::SourceKind;
use thermocline_raw::OnError;

use crate::settings::{self, Append, ThermoclineConfig};

/// The formats a path can be queried in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FileFormat {
    /// One JSON object a line.
    Ndjson,
    /// Delimited text.
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl FileFormat {
    /// The format that a path's suffix stands for, looking through `.gz` and `.zst`.
    pub(crate) fn from_path(path: &str) -> Option<Self> {
        let (suffix, compressed) = suffix(path)?;
        match suffix.as_str() {
            "ndjson" | "jsonl" | "json" => Some(Self::Ndjson),
            "csv" | "tsv" => Some(Self::Csv),
            "parquet" if !compressed => Some(Self::Parquet),
            _ => None,
        }
    }

    /// The format that `STORED AS word` names.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        match word.to_ascii_uppercase().as_str() {
            "NDJSON" | "JSONL" | "JSON" => Some(Self::Ndjson),
            "CSV" | "TSV" => Some(Self::Csv),
            "PARQUET" => Some(Self::Parquet),
            _ => None,
        }
    }

    /// The word for messages and keys.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
        }
    }

    /// The kind of text, for the cache's policies. Parquet is not cached as rows of text, and never asks.
    pub(crate) fn source_kind(self) -> SourceKind {
        match self {
            Self::Csv => SourceKind::Csv,
            Self::Ndjson | Self::Parquet => SourceKind::Json,
        }
    }
}

/// The suffix of a path in lower case, the one before that where it is one of compression; and whether it was.
fn suffix(path: &str) -> Option<(String, bool)> {
    let lower = path.to_ascii_lowercase();
    let (stem, compressed) = match Compression::from_path(&lower) {
        Compression::None => (lower.as_str(), false),
        _ => (lower.rsplit_once('.').map_or(lower.as_str(), |(stem, _)| stem), true),
    };
    Some((stem.rsplit_once('.')?.1.to_owned(), compressed))
}

/// Whether a path's suffix says that tabs divide its fields.
pub(crate) fn has_tabs(path: &str) -> bool {
    suffix(path).is_some_and(|(suffix, _)| suffix == "tsv")
}

/// Options of a table over raw files. `None` means: as the session says, or as inference finds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TableOptions {
    /// Records that schema inference samples.
    pub(crate) sample_rows: Option<usize>,
    /// What a scan does with a bad record.
    pub(crate) on_error: Option<OnError>,
    /// Whether the old part of a grown file is verified.
    pub(crate) append: Option<Append>,
    /// Whether every byte is validated, those of skipped fields too.
    pub(crate) strict: bool,
    /// Whether integers beyond 64 bits become strings instead of doubles.
    pub(crate) big_integers_as_text: bool,
    /// CSV: field delimiter.
    pub(crate) delimiter: Option<u8>,
    /// CSV: quote character.
    pub(crate) quote: Option<u8>,
    /// CSV: escape character inside quotes; a doubled quote when absent.
    pub(crate) escape: Option<u8>,
    /// CSV: whether the first record names the columns.
    pub(crate) has_header: Option<bool>,
    /// CSV: the text that, without quotes, stands for NULL; the empty field when absent. Of columns that are not text,
    /// empty fields are NULL beside it.
    pub(crate) null_text: Option<String>,
    /// Compression, when the suffix does not tell.
    pub(crate) compression: Option<Compression>,
}

const KNOWN: &str = "sample_rows, on_error, append, strict, big_integers, delimiter, quote, escape, has_header, null_value, compression";

impl TableOptions {
    /// Reads the options of a `CREATE EXTERNAL TABLE`; DataFusion prefixes keys without a dot with `format.`.
    ///
    /// # Errors
    /// An unknown key or a value that does not fit its key.
    pub(crate) fn parse(options: &HashMap<String, String>) -> Result<Self> {
        let mut parsed = Self::default();
        for (key, value) in options {
            let key = key.strip_prefix("format.").or_else(|| key.strip_prefix("thermocline.")).unwrap_or(key);
            match key {
                "sample_rows" | "schema_infer_max_rec" => {
                    parsed.sample_rows = Some(settings::parse_sample_rows(key, value)?)
                }
                "on_error" => parsed.on_error = Some(settings::parse_on_error(key, value)?),
                "append" => parsed.append = Some(settings::parse_append(key, value)?),
                "strict" => parsed.strict = settings::parse_switch(key, value)?,
                "big_integers" => {
                    parsed.big_integers_as_text = match value.to_ascii_lowercase().as_str() {
                        "string" => true,
                        "double" => false,
                        other => {
                            return plan_err!("option big_integers: expected 'double' or 'string', found '{other}'");
                        }
                    }
                }
                "delimiter" => parsed.delimiter = Some(one_byte(key, value)?),
                "quote" => parsed.quote = Some(one_byte(key, value)?),
                "escape" => parsed.escape = Some(one_byte(key, value)?),
                "has_header" | "header" => parsed.has_header = Some(settings::parse_switch(key, value)?),
                "null_value" => parsed.null_text = Some(value.clone()),
                "compression" => {
                    parsed.compression = Some(match value.to_ascii_lowercase().as_str() {
                        "gzip" | "gz" => Compression::Gzip,
                        "zstd" | "zst" => Compression::Zstd,
                        "uncompressed" | "none" => Compression::None,
                        other => return plan_err!("option compression: expected gzip, zstd or none, found '{other}'"),
                    })
                }
                _ => return plan_err!("unknown option '{key}'; the options of a raw table are {KNOWN}"),
            }
        }
        Ok(parsed)
    }

    /// What a scan does with a bad record, given the session's settings.
    pub(crate) fn on_error(&self, config: &ThermoclineConfig) -> OnError {
        self.on_error.unwrap_or(config.on_error)
    }

    /// How a grown file is treated, given the session's settings.
    pub(crate) fn append(&self, config: &ThermoclineConfig) -> Append {
        self.append.unwrap_or(config.append)
    }

    /// How many records are sampled, given the session's settings.
    pub(crate) fn sample_rows(&self, config: &ThermoclineConfig) -> usize {
        self.sample_rows.unwrap_or(config.sample_rows)
    }

    /// Everything that changes what a record of a file that is compressed so parses to, as a key: two scans whose keys
    /// differ never share cached data.
    pub(crate) fn fingerprint(
        &self,
        format: FileFormat,
        config: &ThermoclineConfig,
        compression: Compression,
    ) -> String {
        let mut key = String::new();
        let _ = write!(
            key,
            "{} {:?} strict={} big={} d={:?} q={:?} e={:?} h={:?} n={:?} c={:?} s={:?}",
            format.name(),
            self.on_error(config),
            self.strict,
            self.big_integers_as_text,
            self.delimiter,
            self.quote,
            self.escape,
            self.has_header,
            self.null_text,
            compression,
            self.sample_rows(config),
        );
        key
    }
}

fn one_byte(key: &str, value: &str) -> Result<u8> {
    match value.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        b"\\t" => Ok(b'\t'),
        _ => plan_err!("option {key}: expected one ASCII character, found '{value}'"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_format_is_read_through_compression_suffixes() {
        assert_eq!(FileFormat::from_path("a/b.ndjson.gz"), Some(FileFormat::Ndjson));
        assert_eq!(FileFormat::from_path("B.CSV"), Some(FileFormat::Csv));
        assert_eq!(FileFormat::from_path("x.parquet"), Some(FileFormat::Parquet));
        assert_eq!(FileFormat::from_path("x.parquet.gz"), None);
        assert_eq!(FileFormat::from_path("orders"), None);
        for (path, expected) in
            [("a.tsv", true), ("A.TSV.gz", true), ("tsv", false), ("a.csv", false), ("a.tsv/b", false)]
        {
            assert_eq!(has_tabs(path), expected, "{path}");
        }
    }

    #[test]
    fn an_unknown_option_is_refused_with_the_known_ones_named() {
        let options = HashMap::from([("format.delimeter".to_string(), ";".to_string())]);
        let message = TableOptions::parse(&options).unwrap_err().to_string();
        assert!(message.contains("delimeter") && message.contains("delimiter"), "{message}");
    }
}
