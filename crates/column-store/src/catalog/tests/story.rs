//! The changes that crashes and faults are tried on.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;

use thermocline_medium::Medium;
use xxhash_rust::xxh3::xxh3_64;

use super::changes::{columns, name, view, write_segment};
use super::segments;
use crate::SegmentInfo;
use crate::catalog::{Catalog, CatalogError, ColumnTable, Entry, EntryName, Manifest, PendingSegment};

pub(super) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

pub(super) type Entries = BTreeMap<EntryName, Entry>;

/// What was issued and what of it was acknowledged.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// The entries after each change that was issued.
    pub(super) issued: Vec<Entries>,
    /// How many of them were acknowledged.
    pub(super) acknowledged_count: usize,
    /// Names that were given to segments.
    pub(super) given: BTreeSet<String>,
}

impl Record {
    /// Whether these entries may be found: those after the last acknowledged change, or one that was issued since.
    pub(super) fn allows(&self, entries: &Entries) -> bool {
        let is_before_all = self.acknowledged_count == 0 && entries.is_empty();
        is_before_all || self.issued[self.acknowledged_count.saturating_sub(1)..].contains(entries)
    }
}

/// What the changes write as segments, and how it is told that one is whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segments {
    pub(super) what: &'static str,
    pub(super) write: fn(&Arc<dyn Medium>, &PendingSegment) -> Outcome<SegmentInfo>,
    pub(super) require_whole: fn(&Arc<dyn Medium>, &SegmentInfo) -> Outcome,
}

/// Files that only the catalog's tests know.
pub(super) const STAND_INS: Segments =
    Segments { what: "stand-ins", write: write_stand_in, require_whole: require_whole_stand_in };

/// Segments as tables have them, read page by page and compared with the rows that were written.
pub(super) const REAL: Segments =
    Segments { what: "real segments", write: segments::write, require_whole: segments::require_whole };

fn write_stand_in(medium: &Arc<dyn Medium>, pending: &PendingSegment) -> Outcome<SegmentInfo> {
    Ok(write_segment(medium.as_ref(), pending)?)
}

fn require_whole_stand_in(medium: &Arc<dyn Medium>, segment: &SegmentInfo) -> Outcome {
    let file = medium.open(&segment.name)?;
    let mut content = vec![0; medium.size_bytes(&file)? as usize];
    medium.read_at(&file, 0, &mut content)?;
    if content.len() as u64 != segment.size_bytes || xxh3_64(&content) != segment.footer_checksum {
        return Err(format!("{} is torn", segment.name).into());
    }
    Ok(())
}

pub(super) const STEP_COUNT: usize = 7;

/// Makes one change: table, insert, view, replaced table, external table, dropped table, changed view.
pub(super) fn step(
    segments: Segments,
    step: usize,
    catalog: &Catalog,
    medium: &Arc<dyn Medium>,
    record: &mut Record,
) -> Outcome {
    let pending = if matches!(step, 0 | 1 | 3) { Some(catalog.new_segment()?) } else { None };
    let mut new = Vec::new();
    if let Some(pending) = &pending {
        record.given.insert(pending.name().to_owned());
        new.push((segments.write)(medium, pending)?);
    }
    catalog.commit(|manifest| {
        edit(step, manifest, new);
        record.issued.push(manifest.entries.clone());
        Ok::<_, CatalogError>(())
    })?;
    record.acknowledged_count = record.issued.len();
    Ok(())
}

fn edit(step: usize, manifest: &mut Manifest, new: Vec<SegmentInfo>) {
    let table = |segments| Entry::ColumnTable(ColumnTable::with_segments(columns(), segments));
    let entries = &mut manifest.entries;
    match step {
        0 | 3 => entries.insert(name("t"), table(new)),
        1 => {
            let Some(Entry::ColumnTable(table)) = entries.get_mut(&name("t")) else { panic!("step 0 makes a table") };
            table.segments.extend(new);
            None
        }
        2 => entries.insert(name("v"), view("SELECT a FROM t")),
        4 => {
            // Longer than some sectors, so that it can be torn.
            let definition = format!("CREATE EXTERNAL TABLE e LOCATION '{}'", "x".repeat(2000));
            entries.insert(name("e"), Entry::ExternalTable { definition })
        }
        5 => entries.remove(&name("t")),
        _ => entries.insert(name("v"), view("SELECT 1")),
    };
}

/// All changes, one after the other, each with the catalog as it is after those before.
pub(super) fn work(segments: Segments, medium: &Arc<dyn Medium>, record: &mut Record) -> Outcome {
    let catalog = Catalog::open(Arc::clone(medium))?;
    for index in 0..STEP_COUNT {
        step(segments, index, &catalog, medium, record)?;
    }
    Ok(())
}

/// Whether the segments that the manifest names are those that were written.
pub(super) fn require_segments(segments: Segments, medium: &Arc<dyn Medium>, manifest: &Manifest) -> Outcome {
    manifest.segments().try_for_each(|(_, segment)| (segments.require_whole)(medium, segment))
}

/// Whether the segments that the manifest names are those that were written, and nothing else is there.
pub(super) fn require_whole(segments: Segments, medium: &Arc<dyn Medium>, manifest: &Manifest) -> Outcome {
    require_segments(segments, medium, manifest)?;
    let mut expected: BTreeSet<String> = (manifest.version() > 0).then(|| "manifest".to_owned()).into_iter().collect();
    expected.extend(manifest.segments().map(|(_, segment)| segment.name.clone()));
    let found: BTreeSet<String> = medium.list()?.into_iter().collect();
    if found != expected {
        return Err(format!("found {found:?}, expected {expected:?}").into());
    }
    Ok(())
}
