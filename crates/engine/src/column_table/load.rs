//! Rows into segments: streams are cut into row groups, which are encoded in parallel and written in order.
//!
//! Each stream becomes one segment, so that rows that come in order stay in order and lie together. Batches that wait
//! to be encoded are reserved as query memory, and so is what encoding them takes; when there is none left, a row group
//! is made of what there is.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use thermocline_budget::{Account, Reservation};
use thermocline_column_store::{
    EncodedRowGroup, PendingSegment, RowGroupBuilder, SegmentInfo, SegmentWriter, encoding_bytes,
};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};

use super::ColumnTables;
use crate::error::{Error, Result};
use crate::own_batch::own;
use crate::raw_table::listing::external;

/// Bytes of rows that are taken in at once, about: so few that what encoding them takes is soon there, and little where
/// it is taken without being there.
const PIECE_BYTES: usize = 2 << 20;

/// What encoding such rows takes at most, unless they are one row alone: three times their bytes, and something for each
/// row. Texts that views share count once among the rows' bytes, and for each row here.
const PIECE_ENCODING_BYTES: usize = 4 * PIECE_BYTES;

/// Rows that were written; unless they are in a table by then, they are removed when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct LoadedRows {
    segments: Vec<(PendingSegment, SegmentInfo)>,
}

impl LoadedRows {
    pub(crate) fn row_count(&self) -> u64 {
        self.segments.iter().map(|(_, info)| info.row_count).sum()
    }

    /// The segments, in the order of the streams.
    pub(crate) fn infos(&self) -> Vec<SegmentInfo> {
        self.segments.iter().map(|(_, info)| info.clone()).collect()
    }
}

/// Writes the rows of all streams, which have `schema`. With `threads` threads to use. When it fails, what was written
/// is gone; dropped, it stops, and whoever is writing just then removes it.
///
/// # Errors
/// A stream's own; a type that pages cannot hold, a NULL in a column that has none; a disk that is full or fails; not
/// enough memory for a single batch.
pub(crate) async fn load(
    tables: &Arc<ColumnTables>,
    account: &Account,
    schema: &SchemaRef,
    streams: Vec<SendableRecordBatchStream>,
    threads: usize,
) -> Result<LoadedRows> {
    let waiting = threads.div_ceil(streams.len().max(1));
    let (working, mut at_work) = mpsc::channel::<Infallible>(1);
    let mut tasks = JoinSet::new();
    for (index, stream) in streams.into_iter().enumerate() {
        let load = Load {
            tables: Arc::clone(tables),
            account: account.clone(),
            schema: Arc::clone(schema),
            builder: RowGroupBuilder::new(),
            reserved: Vec::new(),
            encoding: VecDeque::new(),
            waiting,
            begun: None,
            working: working.clone(),
        };
        tasks.spawn(async move { load.run(stream).await.map(|written| (index, written)) });
    }
    drop(working);
    let mut written = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        match ended.map_err(|error| Error::from(external(error))).flatten() {
            Ok((index, segment)) => written.extend(segment.map(|segment| (index, segment))),
            Err(error) => {
                // Threads that write cannot be stopped: they end, and remove what nobody wants any more.
                tasks.shutdown().await;
                while at_work.recv().await.is_some() {}
                return Err(error);
            }
        }
    }
    written.sort_by_key(|(index, _)| *index);
    Ok(LoadedRows { segments: written.into_iter().map(|(_, segment)| segment).collect() })
}

/// A row group and the memory that its pages take.
type Encoded = (EncodedRowGroup, Vec<Reservation>);

/// One stream on its way into one segment.
struct Load {
    tables: Arc<ColumnTables>,
    account: Account,
    schema: SchemaRef,
    builder: RowGroupBuilder,
    /// For the batches that the builder has.
    reserved: Vec<Arc<Reservation>>,
    /// Groups being encoded, in order.
    encoding: VecDeque<JoinHandle<Result<Encoded, DataFusionError>>>,
    /// How many groups may be on their way beside the one that is awaited.
    waiting: usize,
    begun: Option<Begun>,
    working: mpsc::Sender<Infallible>,
}

/// A segment being written. Dropped, its file is removed, and only then the sign that somebody is at work.
struct Begun {
    writer: SegmentWriter,
    pending: PendingSegment,
    working: mpsc::Sender<Infallible>,
}

impl Begun {
    fn new(tables: &ColumnTables, schema: SchemaRef, working: mpsc::Sender<Infallible>) -> Result<Self> {
        let pending = tables.new_segment()?;
        let writer = SegmentWriter::create(Arc::clone(tables.medium()), pending.name(), schema).map_err(external)?;
        Ok(Self { writer, pending, working })
    }

    /// The whole segment; the sign goes with it until it is received.
    fn finish(self) -> Result<(SegmentInfo, PendingSegment, mpsc::Sender<Infallible>)> {
        let Self { writer, pending, working } = self;
        let info = writer.finish().map_err(external)?;
        Ok((info, pending, working))
    }
}

impl Load {
    async fn run(mut self, mut stream: SendableRecordBatchStream) -> Result<Option<(PendingSegment, SegmentInfo)>> {
        while let Some(batch) = stream.next().await {
            self.push(batch?).await?;
        }
        self.flush();
        self.write_all_but(0).await?;
        let Some(begun) = self.begun.take() else { return Ok(None) };
        let (info, pending, _) = spawn_blocking(move || begun.finish()).await.map_err(external)??;
        Ok(Some((pending, info)))
    }

    async fn push(&mut self, batch: RecordBatch) -> Result<()> {
        check_nulls(&self.schema, &batch)?;
        let batch = own(batch).map_err(external)?;
        let size_bytes = batch.get_array_memory_size();
        let of_batch = Arc::new(self.reserve(size_bytes).await?);
        for (piece, needed_bytes) in pieces(&batch, size_bytes) {
            let of_encoding = match self.reserve(needed_bytes).await {
                Ok(reserved) => reserved,
                // Nothing else is on its way. Other streams may wait for as little as this one.
                Err(_) => self.account.reserve_infallible(needed_bytes as u64),
            };
            let of_encoding = Arc::new(of_encoding);
            let of_piece = [Arc::clone(&of_batch), of_encoding];
            self.reserved.extend(of_piece.iter().cloned());
            for group in self.builder.push(piece) {
                let of_group = std::mem::take(&mut self.reserved);
                self.encode(group, of_group);
                // The rest of the piece is in the next group.
                self.reserved.extend(of_piece.iter().cloned());
                self.write_all_but(self.waiting).await?;
            }
        }
        Ok(())
    }

    async fn reserve(&mut self, size_bytes: usize) -> Result<Reservation> {
        if let Ok(reserved) = self.account.try_reserve(size_bytes as u64) {
            return Ok(reserved);
        }
        // With what is on its way gone, only this is left to make room for.
        self.flush();
        self.write_all_but(0).await?;
        Ok(self.account.try_reserve(size_bytes as u64).map_err(external)?)
    }

    /// Makes a row group of what there is.
    fn flush(&mut self) {
        let reserved = std::mem::take(&mut self.reserved);
        if let Some(group) = std::mem::take(&mut self.builder).finish() {
            self.encode(group, reserved);
        }
    }

    fn encode(&mut self, batches: Vec<RecordBatch>, reserved: Vec<Arc<Reservation>>) {
        let schema = Arc::clone(&self.schema);
        self.encoding.push_back(spawn_blocking(move || {
            let group = EncodedRowGroup::encode(&schema, &batches).map_err(external)?;
            drop(batches);
            let of_pages = kept(&reserved, group.size_bytes());
            Ok((group, of_pages))
        }));
    }

    /// Writes groups in order until only so many are on their way.
    async fn write_all_but(&mut self, count: usize) -> Result<()> {
        while self.encoding.len() > count {
            let Some(next) = self.encoding.pop_front() else { break };
            let (group, of_pages) = next.await.map_err(external)??;
            let begun = self.begun.take();
            let (tables, schema) = (Arc::clone(&self.tables), Arc::clone(&self.schema));
            let working = self.working.clone();
            let writing = spawn_blocking(move || {
                let mut begun = match begun {
                    Some(begun) => begun,
                    None => Begun::new(&tables, schema, working)?,
                };
                begun.writer.append(&group).map_err(external)?;
                drop((group, of_pages));
                Ok::<_, Error>(begun)
            });
            self.begun = Some(writing.await.map_err(external)??);
        }
        Ok(())
    }
}

/// The rows of a batch of `size_bytes` as they are taken in, and what encoding each of these pieces takes.
fn pieces(batch: &RecordBatch, size_bytes: usize) -> impl Iterator<Item = (RecordBatch, usize)> {
    let most_rows = (batch.num_rows() * PIECE_BYTES / size_bytes.max(PIECE_BYTES)).max(1);
    let (mut next_row, mut row_count) = (0, most_rows);
    std::iter::from_fn(move || {
        let left_rows = batch.num_rows() - next_row;
        if left_rows == 0 {
            return None;
        }
        let mut piece = batch.slice(next_row, row_count.min(left_rows));
        let mut needed_bytes = encoding_bytes(&piece);
        while needed_bytes > PIECE_ENCODING_BYTES && piece.num_rows() > 1 {
            piece = piece.slice(0, piece.num_rows() / 2);
            needed_bytes = encoding_bytes(&piece);
        }
        next_row += piece.num_rows();
        // The next rows are mostly like these: looking at all of them for each piece would take long.
        row_count = most_rows.min(2 * piece.num_rows());
        Some((piece, needed_bytes))
    })
}

/// So many bytes of what is reserved, but for what another row group holds as well.
fn kept(reserved: &[Arc<Reservation>], mut size_bytes: u64) -> Vec<Reservation> {
    let own = reserved.iter().filter(|reservation| Arc::strong_count(reservation) == 1);
    own.map(|reservation| {
        let part = reservation.split(size_bytes);
        size_bytes -= part.size_bytes();
        part
    })
    .take_while(|part| part.size_bytes() > 0)
    .collect()
}

/// What a column promises is checked here, where the message can name it.
fn check_nulls(schema: &SchemaRef, batch: &RecordBatch) -> Result<()> {
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        if !field.is_nullable() && column.null_count() > 0 {
            return Err(Error::input(format!("column '{}' is NOT NULL, and a row has NULL there", field.name())));
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::arrow::array::{Array, ArrayRef, Int64Array, StringArray, StringViewBuilder};

    use super::*;

    /// Each piece's rows and what encoding them takes. All rows are in one of them, in order.
    fn pieces_of(column: ArrayRef) -> Vec<(usize, usize)> {
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let mut next_row = 0;
        let mut found = Vec::new();
        for (piece, needed_bytes) in pieces(&batch, batch.get_array_memory_size()) {
            assert_eq!(piece, batch.slice(next_row, piece.num_rows()));
            assert_eq!(needed_bytes, encoding_bytes(&piece));
            next_row += piece.num_rows();
            found.push((piece.num_rows(), needed_bytes));
        }
        assert_eq!(next_row, batch.num_rows());
        found
    }

    #[test]
    fn rows_that_share_a_text_are_taken_in_few_at_a_time() {
        let mut shared = StringViewBuilder::new().with_deduplicate_strings();
        let text = "s".repeat(100_000);
        (0..5000).for_each(|_| shared.append_value(&text));
        let shared = shared.finish();
        assert!(shared.get_array_memory_size() < PIECE_BYTES);
        let pieces = pieces_of(Arc::new(shared));
        assert!(pieces.iter().all(|(_, needed_bytes)| *needed_bytes <= PIECE_ENCODING_BYTES), "{pieces:?}");
        assert!(pieces.len() <= 5000 / 10, "{} pieces", pieces.len());
    }

    #[test]
    fn a_row_that_takes_much_is_taken_in_alone_and_few_rows_together() {
        let long = "l".repeat(PIECE_ENCODING_BYTES);
        let texts: Vec<&str> = (0..100).map(|row| if row == 40 { long.as_str() } else { "short" }).collect();
        let pieces = pieces_of(Arc::new(StringArray::from(texts)));
        let long: Vec<_> = pieces.iter().filter(|(_, needed_bytes)| *needed_bytes > PIECE_ENCODING_BYTES).collect();
        assert!(matches!(long[..], [(1, _)]), "{pieces:?}");
        assert_eq!(pieces_of(Arc::new(Int64Array::from_iter_values(0..8192))).len(), 1);
        assert!(pieces_of(Arc::new(Int64Array::from_iter_values(Vec::new()))).is_empty());
    }
}
