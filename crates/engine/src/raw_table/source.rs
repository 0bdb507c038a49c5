//! Raw files as sources of morsels for the operator cache's shared scans.

use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use thermocline_medium::{BlockHashes, Change, Compression, HashRecorder, MediumError, PinnedFile};
use thermocline_operator_cache::{
    ColumnSpec, Elements, Fetch, Morsel, MorselSource, Rows, ScanSpec, SourceEnd, SourceError, SourceFactory,
    element_columns,
};
use thermocline_raw::{Column, FileScan, Format, ScanPlan, Source, Unnest};

use super::listing::QueryFile;
use super::options::FileFormat;
use super::scan_run::Scan;
use crate::query::Progress;
use crate::settings::Append;

/// Opens `file` for a scan that the cache asks for, and again for those who read what they missed of it.
pub(super) fn factory(scan: Arc<Scan>, file: Arc<QueryFile>) -> SourceFactory {
    // Who goes on reads a part of the content, and only with what was read before can it be told from another.
    let recorder = OnceLock::new();
    Arc::new(move |spec| {
        RawSource::open(&scan, &file, spec, &recorder).map(|source| Arc::new(source) as Arc<dyn MorselSource>)
    })
}

/// One scan of one raw file.
struct RawSource {
    scan: FileScan,
    file: Arc<QueryFile>,
    recorder: Option<Arc<HashRecorder>>,
    /// Of the content that the positions or the map to read by are of.
    kept_hashes: Option<Arc<BlockHashes>>,
    /// Whether it must be that content by its hashes, whatever its metadata say.
    must_compare: bool,
    end_bytes: u64,
    /// Whether the file's own bytes are lines: they are not compressed.
    has_lines: bool,
    /// Whether what an earlier scan read was compared with the file, not vouched for by the user.
    is_prefix_checked: bool,
    /// By column, where a list is unnested: whether it belongs to the elements.
    is_element: Option<Arc<[bool]>>,
    progress: Arc<Progress>,
}

impl RawSource {
    fn open(
        scan: &Scan,
        file: &Arc<QueryFile>,
        spec: &ScanSpec,
        shared_recorder: &OnceLock<Arc<HashRecorder>>,
    ) -> Result<Self, SourceError> {
        let plan = ScanPlan {
            columns: columns(&spec.columns),
            predicate: spec.predicate.as_ref().clone(),
            predicate_types: scan
                .predicate_types
                .iter()
                .map(|(path, data_type)| Column { path: path.clone(), data_type: data_type.clone() })
                .collect(),
            unnest: scan.unnest.clone().map(|path| Unnest { path, keeps_empty: spec.keeps_empty }),
            on_error: scan.options.on_error(&scan.config),
            strict: scan.options.strict,
            positions: spec.notes_positions,
            map: spec.makes_map,
        };
        let format = match (scan.format, &scan.csv) {
            (FileFormat::Csv, Some(csv)) => Format::Csv(Arc::clone(csv)),
            _ => Format::Ndjson,
        };
        let compression = file.compression(&scan.options);
        // Of single records, and of what a map knows, the hashes of who found them hold.
        let has_hashes = spec.hashes.as_ref().is_some_and(|hashes| hashes.size_bytes() == spec.end_bytes);
        let by_kept = spec.positions.is_some() || spec.head.is_some() || (spec.map.is_some() && has_hashes);
        // What is hashed is what is read: the file's own bytes, before they are decompressed. Objects have tags
        // instead.
        let recorder = (matches!(file.source, Source::Local(_)) && !by_kept).then(|| {
            let recorder = shared_recorder.get_or_init(|| {
                Arc::new(match &spec.hashes {
                    Some(hashes) if spec.start_bytes > 0 => {
                        HashRecorder::after_prefix(hashes).against(Arc::clone(hashes))
                    }
                    Some(hashes) => HashRecorder::new().against(Arc::clone(hashes)),
                    None => HashRecorder::new(),
                })
            });
            Arc::clone(recorder)
        });
        let threads = scan.database.threads();
        let file_scan = match (&spec.map, &spec.positions) {
            (Some(map), _) => {
                let map = Arc::clone(map);
                FileScan::with_map(file.source.clone(), map, format, plan, recorder.clone())?
                    .without_first(spec.head.map_or(0, |head| head.record_count))
            }
            (None, Some(positions)) => FileScan::at_positions(
                file.source.clone(),
                Arc::clone(positions),
                spec.record_bytes,
                spec.end_bytes,
                format,
                compression,
                plan,
            )?,
            (None, None) if let Some(head) = spec.head => {
                FileScan::behind(file.source.clone(), head.end_bytes, spec.end_bytes, format, plan, None, threads)?
            }
            (None, None) => FileScan::new(
                file.source.clone(),
                spec.start_bytes,
                spec.end_bytes,
                format,
                compression,
                plan,
                recorder.clone(),
                threads,
            )?,
        };
        // Whose stamp could hide a later write, now or when what is kept was found to be of this version, is known by its
        // content alone.
        let was_young = file.pinned.get().is_some_and(|pinned| pinned.is_young());
        let must_compare = by_kept && (was_young || file.version.is_young(scan.database.clock().wall_ns()));
        let progress = Arc::clone(scan.context.progress());
        progress.add_total(file_scan.total_bytes());
        let is_element = scan.unnest.as_ref().map(|list| element_columns(&spec.columns, list));
        Ok(Self {
            scan: file_scan,
            file: Arc::clone(file),
            recorder,
            kept_hashes: spec.hashes.clone().filter(|_| by_kept),
            must_compare,
            end_bytes: spec.end_bytes,
            has_lines: compression == Compression::None,
            is_prefix_checked: scan.options.append(&scan.config) == Append::Verify,
            is_element,
            progress,
        })
    }

    /// Refuses a file of which other content was read than it had when the query opened it, which may have been long
    /// before this scan began. A write that leaves the length, or takes from it, is no appending; one that adds to it is,
    /// if the old content goes up to the end of a line, and is what it was known to be.
    fn require_version(&self, file: &PinnedFile, change: Change, has_other_prefix: bool) -> Result<(), SourceError> {
        match change {
            Change::Unchanged => Ok(()),
            Change::Other => Ok(file.require_unwritten()?),
            Change::Grown if has_other_prefix && self.is_prefix_checked => {
                Err(changed(file, "its beginning was rewritten"))
            }
            Change::Grown if self.has_lines && self.end_bytes > 0 => {
                // The last line may have had no end, which is then the first that was appended.
                let mut ends = [0; 2];
                file.read_exact_at(&mut ends, self.end_bytes - 1)?;
                if ends.contains(&b'\n') { Ok(()) } else { Err(changed(file, "it grew in the middle of a line")) }
            }
            Change::Grown => Ok(()),
        }
    }
}

fn changed(file: &PinnedFile, difference: &str) -> SourceError {
    Box::new(MediumError::Changed { path: file.path().to_string(), difference: difference.to_owned() })
}

fn columns(specs: &[ColumnSpec]) -> Vec<Column> {
    specs.iter().map(|spec| Column { path: spec.path.clone(), data_type: spec.data_type.clone() }).collect()
}

impl MorselSource for RawSource {
    fn next_morsel(&self) -> Result<Option<Morsel>, SourceError> {
        let Some(morsel) = self.scan.next_morsel()? else { return Ok(None) };
        Ok(Some(Morsel {
            index: morsel.index,
            start_bytes: morsel.range.start,
            end_bytes: morsel.range.end,
            head_end_bytes: self.scan.head_end(&morsel),
            payload: Some(Box::new(morsel)),
        }))
    }

    fn fetch(self: Arc<Self>, morsel: Morsel) -> Fetch {
        if matches!(self.file.source, Source::Local(_)) {
            return Fetch::Ready(morsel);
        }
        let fetching = async move {
            let Morsel { payload, .. } = morsel;
            let raw = unpack(payload)?;
            let fetched = self.scan.fetch(raw).await?;
            Ok(Morsel { payload: Some(Box::new(fetched)), ..morsel })
        };
        Fetch::Pending(fetching.boxed())
    }

    fn decode(&self, morsel: Morsel) -> Result<Rows, SourceError> {
        let read_bytes = morsel.end_bytes - morsel.start_bytes;
        let rows = self.scan.decode(unpack(morsel.payload)?)?;
        self.progress.add_done(read_bytes);
        let shape = rows.element_offsets.zip(self.is_element.clone());
        Ok(Rows {
            columns: rows.columns,
            elements: shape.map(|(offsets, is_element)| Elements { offsets, is_element }),
            row_count: rows.row_count,
            record_count: rows.record_count,
            skipped_count: rows.skipped_count,
            positions: rows.positions,
            map_piece: rows.map_piece,
        })
    }

    fn total_bytes(&self) -> u64 {
        self.scan.total_bytes()
    }

    fn finish(&self) -> Result<SourceEnd, SourceError> {
        let Source::Local(file) = &self.file.source else {
            // Every read of an object is conditional on its version.
            return Ok(SourceEnd::default());
        };
        let hashes = self.recorder.as_ref().and_then(|recorder| recorder.finish(self.end_bytes));
        let has_other_prefix = self.recorder.as_ref().is_some_and(|recorder| recorder.has_other_prefix());
        let has_two_contents = self.recorder.as_ref().is_some_and(|recorder| recorder.has_two_contents());
        let change = file.change()?;
        self.require_version(file, change, has_other_prefix)?;
        let mut is_one_content = !has_two_contents;
        if is_one_content && (self.must_compare || change != Change::Unchanged) {
            // Metadata moved: by appending, by a rename over this name, or by a rewrite that looks like one of these. Only
            // the content tells whether the scan read one.
            is_one_content = match hashes.as_ref().or(self.kept_hashes.as_deref()) {
                Some(hashes) => hashes.prefix_matches(file, self.end_bytes)?.is_same(),
                // All is known from a map of just the version that was opened.
                None => !self.must_compare && !self.scan.reads_bytes(),
            };
        }
        if !is_one_content {
            return Err(changed(file, "its content moved under the scan"));
        }
        Ok(SourceEnd { covered_end_bytes: self.scan.covered_end(), hashes, has_other_prefix })
    }
}

fn unpack(payload: Option<Box<dyn std::any::Any + Send + Sync>>) -> Result<thermocline_raw::Morsel, SourceError> {
    payload
        .and_then(|payload| payload.downcast::<thermocline_raw::Morsel>().ok())
        .map(|morsel| *morsel)
        .ok_or_else(|| "a morsel of another source was handed in".into())
}
