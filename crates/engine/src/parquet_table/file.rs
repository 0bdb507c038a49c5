//! An open Parquet file and how ranges of it are read.

use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use object_store::{OBJECT_STORE_COALESCE_DEFAULT, coalesce_ranges};
use thermocline_medium::{FileVersion, MediumError, PinnedFile, RemoteFile};
use thermocline_raw::Source;

use crate::error::Error;

/// A file that a query holds open. Clones are the same open file.
#[derive(Debug, Clone)]
pub(crate) enum ParquetFile {
    /// A file of this machine.
    Local(Arc<PinnedFile>),
    /// An object of a store.
    Remote(Arc<RemoteFile>),
}

impl From<Source> for ParquetFile {
    fn from(source: Source) -> Self {
        match source {
            Source::Local(file) => Self::Local(file),
            Source::Remote(file) => Self::Remote(file),
        }
    }
}

impl ParquetFile {
    /// The version that was opened.
    pub(crate) fn version(&self) -> &FileVersion {
        match self {
            Self::Local(file) => file.version(),
            Self::Remote(file) => file.version(),
        }
    }

    /// Canonical path or URL.
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.version().path
    }

    /// Size when it was opened.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.version().size_bytes
    }

    /// An error of the user's input that names this file.
    pub(super) fn error(&self, what: impl Display) -> DataFusionError {
        Error::input(format!("{}: {what}", self.path())).into_datafusion()
    }

    /// Refuses ranges that are none of the file's.
    pub(super) fn check_ranges(&self, ranges: &[Range<u64>]) -> Result<()> {
        let size_bytes = self.size_bytes();
        match ranges.iter().find(|range| range.start > range.end || range.end > size_bytes) {
            Some(Range { start, end }) => Err(self.error(format_args!(
                "damaged Parquet file: it refers to bytes {start} to {end}, but has {size_bytes} bytes"
            ))),
            None => Ok(()),
        }
    }

    /// The bytes of each range, in their order.
    ///
    /// # Errors
    /// A range outside the file; a file that changed since it was opened; failures of the system or the store.
    pub(super) async fn read(&self, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>> {
        self.check_ranges(&ranges)?;
        match self {
            Self::Local(file) => {
                let file = Arc::clone(file);
                let read = move || read_local(&file, &ranges);
                match tokio::runtime::Handle::try_current() {
                    Ok(runtime) => {
                        runtime.spawn_blocking(read).await.map_err(|error| DataFusionError::External(error.into()))?
                    }
                    Err(_) => read(),
                }
                .map_err(external)
            }
            Self::Remote(file) => {
                coalesce_ranges(&ranges, |range| file.read_range(range), OBJECT_STORE_COALESCE_DEFAULT)
                    .await
                    .map_err(external)
            }
        }
    }
}

fn external(error: MediumError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn read_local(file: &PinnedFile, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, MediumError> {
    let mut read = Vec::with_capacity(ranges.len());
    for range in ranges {
        // Within a file that is mapped by its size: the length fits.
        let mut buffer = vec![0; (range.end - range.start) as usize];
        file.read_exact_at(&mut buffer, range.start)?;
        read.push(Bytes::from(buffer));
    }
    // Unlike a raw file, it is not read up to a size: growth means that it was rewritten.
    file.require_unwritten()?;
    Ok(read)
}
