//! From what a user wrote as a location to the files one query reads.
//!
//! Folders and globs are listed anew for each query; each file is opened once per query, and stays open, so that a
//! query sees one version of it even if another file takes its name meanwhile.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::execution::object_store::ObjectStoreUrl;
use thermocline_medium::{
    Access, Compression, FileVersion, ListedFile, Location, PinnedFile, RemoteFile, list_local, list_remote,
};
use thermocline_operator_cache::PinnedSource;
use thermocline_raw::Source;

use super::options::{self, FileFormat, TableOptions};
use crate::database::Database;
use crate::query::QueryContext;

/// What the suffixes of a file's name say of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Suffixes {
    /// The format, if they tell.
    pub(crate) format: Option<FileFormat>,
    pub(crate) compression: Compression,
    /// Whether fields are divided by tabs.
    pub(crate) has_tabs: bool,
}

impl Suffixes {
    /// Of the name by which a file was found; what that leaves open by the path of the file that it is a link to.
    pub(crate) fn of(listed: &str, canonical: &str) -> Self {
        let named = [listed, canonical].into_iter().find_map(|path| Some((path, FileFormat::from_path(path)?)));
        let compression = match Compression::from_path(listed) {
            Compression::None => Compression::from_path(canonical),
            compression => compression,
        };
        Self {
            format: named.map(|(_, format)| format),
            compression,
            has_tabs: named.is_some_and(|(path, _)| options::has_tabs(path)),
        }
    }
}

/// A file as one query sees it.
#[derive(Debug)]
pub(crate) struct QueryFile {
    /// Where its bytes come from.
    pub(crate) source: Source,
    /// Its version when the query opened it.
    pub(crate) version: FileVersion,
    /// What it is by its name.
    pub(crate) suffixes: Suffixes,
    /// What the operator cache knows of this version; filled by the first scan of the query.
    pub(crate) pinned: OnceLock<Arc<PinnedSource>>,
}

impl QueryFile {
    fn local(file: PinnedFile) -> Self {
        let version = file.version().clone();
        let suffixes = Suffixes::of(&version.path, &version.path);
        Self { source: Source::Local(Arc::new(file)), version, suffixes, pinned: OnceLock::new() }
    }

    fn remote(file: RemoteFile) -> Self {
        let version = file.version().clone();
        let suffixes = Suffixes::of(&version.path, &version.path);
        Self { source: Source::Remote(Arc::new(file)), version, suffixes, pinned: OnceLock::new() }
    }

    /// The same file by another name.
    fn with_suffixes(&self, suffixes: Suffixes) -> Self {
        Self { source: self.source.clone(), version: self.version.clone(), suffixes, pinned: OnceLock::new() }
    }

    /// Canonical path or URL.
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.version.path
    }

    /// How its bytes are compressed, by option or suffix.
    pub(crate) fn compression(&self, options: &TableOptions) -> Compression {
        options.compression.unwrap_or(self.suffixes.compression)
    }
}

/// Errors of the lower crates as DataFusion's, with the source kept.
pub(crate) fn external<E: std::error::Error + Send + Sync + 'static>(error: E) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The suffixes of a format, with and without compression.
pub(super) fn suffixes(format: FileFormat) -> &'static [&'static str] {
    match format {
        FileFormat::Ndjson => &[
            ".ndjson",
            ".jsonl",
            ".json",
            ".ndjson.gz",
            ".jsonl.gz",
            ".json.gz",
            ".ndjson.zst",
            ".jsonl.zst",
            ".json.zst",
        ],
        FileFormat::Csv => &[".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst"],
        FileFormat::Parquet => &[".parquet"],
    }
}

/// Those of all formats: what else lies in a folder is not looked at, and may be what cannot be.
fn known_suffixes() -> Vec<&'static str> {
    [FileFormat::Ndjson, FileFormat::Csv, FileFormat::Parquet].into_iter().flat_map(suffixes).copied().collect()
}

/// Opens the files of `locations` for the query `context`. In a folder only files of `format` count; without one, the
/// first file that has a known suffix decides.
///
/// # Errors
/// A missing file, a folder or glob without a matching file, a path outside the allowed directories.
pub(crate) async fn open_files(
    locations: &[String],
    format: Option<FileFormat>,
    access: &Access,
    database: &Database,
    context: &QueryContext,
) -> Result<(FileFormat, Arc<[Arc<QueryFile>]>)> {
    let mut files = Vec::new();
    let mut format = format;
    for location in locations {
        let key = format!("{}:{location}", format.map_or("any", FileFormat::name));
        let found = context
            .listing(&key, || async { open_location(location, format, access, database, context).await })
            .await?;
        if format.is_none() {
            format = found.iter().find_map(|file| file.suffixes.format);
        }
        files.extend(found.iter().cloned());
    }
    let Some(format) = format else {
        return plan_err!(
            "{}: the suffix says no format; use CREATE EXTERNAL TABLE … STORED AS NDJSON, CSV or PARQUET",
            locations.join(", ")
        );
    };
    Ok((format, files.into()))
}

async fn open_location(
    text: &str,
    format: Option<FileFormat>,
    access: &Access,
    database: &Database,
    context: &QueryContext,
) -> Result<Arc<[Arc<QueryFile>]>> {
    let parsed = Location::parse(text).map_err(external)?;
    match &parsed {
        Location::Local(pattern) => {
            let format = match format {
                Some(format) => Some(format),
                None if !pattern.is_glob() && !pattern.path().is_dir() => None,
                None => first_format(&list_local(&parsed, Some(&known_suffixes()), access).map_err(external)?),
            };
            // A file named in full is read whatever its suffix says.
            let single = !pattern.is_glob() && !pattern.path().is_dir();
            let suffixes = format.filter(|_| !single).map(suffixes);
            let listed = list_local(&parsed, suffixes, access).map_err(external)?;
            listed
                .iter()
                .map(|listed| {
                    let file = context.file(&listed.version.path, || {
                        let pinned = PinnedFile::open(Path::new(listed.path.as_ref())).map_err(external)?;
                        // A link switched since the listing gains nothing: the opened file itself is judged.
                        access.check(Path::new(pinned.path().as_ref())).map_err(external)?;
                        Ok(Arc::new(QueryFile::local(pinned)))
                    })?;
                    let suffixes = Suffixes::of(&listed.path, file.path());
                    if suffixes == file.suffixes {
                        return Ok(file);
                    }
                    // One version of it, whatever it is called.
                    let named = format!("{} as {suffixes:?}", file.path());
                    context.file(&Arc::from(named), || Ok(Arc::new(file.with_suffixes(suffixes))))
                })
                .collect::<Result<Vec<_>>>()
                .map(Into::into)
        }
        Location::Remote(pattern) => {
            let url = ObjectStoreUrl::parse(pattern.store_url())?;
            // One that the host registered comes first.
            let store = match database.runtime().object_store(&url) {
                Ok(store) => store,
                Err(_) => database.stores().get(pattern.store_url(), access).map_err(external)?,
            };
            let many = pattern.is_glob() || pattern.is_folder();
            let format = match format {
                None if many => {
                    let known = known_suffixes();
                    first_format(&list_remote(&store, pattern, Some(&known), access).await.map_err(external)?)
                }
                format => format,
            };
            let suffixes = format.filter(|_| many).map(suffixes);
            let listed = list_remote(&store, pattern, suffixes, access).await.map_err(external)?;
            listed
                .iter()
                .map(|file| {
                    context.file(&file.version.path, || {
                        let remote = RemoteFile::from_listed(Arc::clone(&store), pattern.store_url(), file);
                        Ok(Arc::new(QueryFile::remote(remote.map_err(external)?)))
                    })
                })
                .collect::<Result<Vec<_>>>()
                .map(Into::into)
        }
    }
}

fn first_format(files: &[ListedFile]) -> Option<FileFormat> {
    files.iter().find_map(|file| Suffixes::of(&file.path, &file.version.path).format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_link_is_called_says_more_than_what_it_leads_to() {
        let of = |listed, canonical| {
            let Suffixes { format, compression, has_tabs } = Suffixes::of(listed, canonical);
            (format, compression, has_tabs)
        };
        let (ndjson, csv) = (Some(FileFormat::Ndjson), Some(FileFormat::Csv));
        assert_eq!(of("/d/events.ndjson", "/blobs/3fa9"), (ndjson, Compression::None, false));
        assert_eq!(of("/d/a.csv.gz", "/blobs/77"), (csv, Compression::Gzip, false));
        assert_eq!(of("/d/a.tsv.zst", "/blobs/77.csv"), (csv, Compression::Zstd, true));
        assert_eq!(of("/d/latest", "/d/2024.tsv.gz"), (csv, Compression::Gzip, true));
        assert_eq!(of("/d/a.csv", "/d/a.csv.gz"), (csv, Compression::Gzip, false));
        assert_eq!(of("/d/a.csv", "/d/a.tsv"), (csv, Compression::None, false));
        assert_eq!(of("/d/latest", "/blobs/77"), (None, Compression::None, false));
    }
}
