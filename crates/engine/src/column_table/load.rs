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
        let piece_rows = batch.num_rows() * PIECE_BYTES / size_bytes.max(PIECE_BYTES);
        for first_row in (0..batch.num_rows()).step_by(piece_rows.max(1)) {
            let piece = batch.slice(first_row, piece_rows.max(1).min(batch.num_rows() - first_row));
            let needed_bytes = encoding_bytes(&piece);
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
