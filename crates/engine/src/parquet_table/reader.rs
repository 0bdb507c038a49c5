//! Gives DataFusion's Parquet scan the bytes of open files.
//!
//! What is read is reserved before it is read, and until the last is gone who holds it: the decoder, or rows whose texts
//! refer to it. The decoder cannot take less, so that it gets what it asks for also where there is no room; caches, and
//! operators that can spill, then make it.

use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{ParquetFileMetrics, ParquetFileReaderFactory};
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use thermocline_budget::{Account, Reservation};

use super::file::ParquetFile;
use super::file_pages::{FilePages, PageCounts, Served};
use super::footers_in_use::HeldFooter;
use super::scan_meter::FileMeter;

/// What a scan needs of a file: travels with its [`PartitionedFile`], through every splitting of the file by byte
/// ranges.
#[derive(Debug, Clone)]
pub(super) struct OpenFile {
    file: ParquetFile,
    footer: Arc<HeldFooter>,
    /// Through which it is read, if the pool may keep what is read.
    pages: Option<Arc<FilePages>>,
}

impl OpenFile {
    pub(super) fn new(file: ParquetFile, footer: Arc<HeldFooter>, pages: Option<Arc<FilePages>>) -> Self {
        Self { file, footer, pages }
    }

    /// Canonical path or URL.
    pub(super) fn path(&self) -> &Arc<str> {
        self.file.path()
    }

    pub(super) fn footer(&self) -> &ParquetMetaData {
        &self.footer
    }

    /// An error of the user's input that names the file.
    pub(super) fn error(&self, what: impl Display) -> DataFusionError {
        self.file.error(what)
    }

    /// The bytes of each range, in their order, and what of it was not in memory.
    pub(super) async fn read(&self, ranges: Vec<Range<u64>>, counts: &PageCounts) -> Result<(Vec<Bytes>, Served)> {
        match &self.pages {
            Some(pages) => pages.read(&self.file, ranges, counts).await,
            None => {
                let read_bytes = ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum();
                Ok((self.file.read(ranges).await?, Served { read_bytes, copied_bytes: read_bytes }))
            }
        }
    }

    /// Whether so many bytes, with those that the caller holds already, are not too many for the pool.
    pub(super) fn is_read_in_place(&self, held_bytes: u64) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.may_hold(held_bytes))
    }

    /// The bytes of a range in pieces, and what of it was not in memory. The pieces are pages of the pool, unless these
    /// are too many together with the `held_bytes` that the caller holds already.
    pub(super) async fn read_in_place(
        &self,
        range: Range<u64>,
        held_bytes: u64,
        counts: &PageCounts,
    ) -> Result<(Vec<Bytes>, Served)> {
        match &self.pages {
            Some(pages) if self.is_read_in_place(held_bytes + (range.end - range.start)) => {
                pages.read_in_place(&self.file, range, counts).await
            }
            _ => self.read(std::iter::once(range).collect(), counts).await,
        }
    }
}

/// Makes readers of [`OpenFile`]s, which reserve what they read from an account.
#[derive(Debug)]
pub(super) struct OpenFileReaders(pub(super) Account);

/// What was read, and the memory for it.
struct Reserved {
    bytes: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Reserved {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl ParquetFileReaderFactory for OpenFileReaders {
    fn create_reader(
        &self,
        partition_index: usize,
        partitioned_file: PartitionedFile,
        _metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let file = partitioned_file
            .extension::<OpenFile>()
            .cloned()
            .ok_or_else(|| internal_datafusion_err!("{} is scanned without being open", partitioned_file.path()))?;
        let counts = PageCounts::new(metrics, partition_index);
        let meter = partitioned_file.extension::<Arc<FileMeter>>().cloned();
        let metrics = ParquetFileMetrics::new(partition_index, file.path(), metrics);
        Ok(Box::new(OpenFileReader { file, account: self.0.clone(), metrics, counts, meter }))
    }
}

struct OpenFileReader {
    file: OpenFile,
    account: Account,
    metrics: ParquetFileMetrics,
    counts: PageCounts,
    meter: Option<Arc<FileMeter>>,
}

impl AsyncFileReader for OpenFileReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        async move {
            let ranges: Vec<_> = std::iter::once(range).collect();
            self.get_byte_ranges(ranges).await.map(|mut bytes| bytes.pop().unwrap_or_default())
        }
        .boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        async move {
            // Nothing is reserved for what a damaged file claims to have.
            self.file.file.check_ranges(&ranges).map_err(parquet_error)?;
            let reservation = self.account.reserve_infallible(ranges.iter().map(|range| range.end - range.start).sum());
            let (bytes, served) = self.file.read(ranges, &self.counts).await.map_err(parquet_error)?;
            let reserved = |bytes: Bytes| {
                let reservation = reservation.split(bytes.len() as u64);
                Bytes::from_owner(Reserved { bytes, _reservation: reservation })
            };
            let bytes: Vec<Bytes> = bytes.into_iter().map(reserved).collect();
            let asked_bytes = bytes.iter().map(Bytes::len).sum();
            self.metrics.bytes_scanned.add(asked_bytes);
            if let Some(meter) = self.meter.as_ref().filter(|_| self.file.pages.is_some()) {
                meter.came(asked_bytes as u64, served);
            }
            Ok(bytes)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        std::future::ready(Ok(Arc::clone(self.file.footer.metadata()))).boxed()
    }
}

impl Drop for OpenFileReader {
    fn drop(&mut self) {
        let ratio = &self.metrics.scan_efficiency_ratio;
        ratio.add_part(self.metrics.bytes_scanned.value());
        // Several readers share a file's ratio: its size counts once.
        ratio.set_total(usize::try_from(self.file.file.size_bytes()).unwrap_or(usize::MAX));
    }
}

/// Keeps the error as it is inside Parquet's: who walks the chain of sources finds it.
fn parquet_error(error: DataFusionError) -> ParquetError {
    ParquetError::External(Box::new(error))
}
