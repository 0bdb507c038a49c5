//! Arbitrary bytes as the file of a segment.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use thermocline_column_store::{EncodedRowGroup, PAGE_ALIGNMENT_BYTES, Segment, SegmentInfo, SegmentWriter};
use thermocline_medium::{Medium, MemoryMedium};
use xxhash_rust::xxh3::xxh3_64;

/// Of the trailer.
const TRAILER_BYTES: usize = 64;
/// In the trailer.
const CHECKSUM_AT: usize = 48;

/// The columns that segments are opened for.
pub fn schema() -> SchemaRef {
    let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into()));
    Arc::new(Schema::new(vec![
        Field::new("number", DataType::Int64, false),
        Field::new("text", DataType::Utf8, true).with_metadata([("key".to_owned(), "value".to_owned())].into()),
        Field::new("at", zoned, true),
    ]))
}

/// Files of segments, and where their footers start.
pub fn corpus() -> [(Vec<u8>, usize); 3] {
    [segment(&[]), segment(&[10]), segment(&[1500, 3, 700])]
}

/// A file with so many rows in each row group.
fn segment(row_counts: &[i64]) -> (Vec<u8>, usize) {
    let schema = schema();
    let medium: Arc<dyn Medium> = Arc::new(MemoryMedium::new());
    let mut writer = SegmentWriter::create(Arc::clone(&medium), "s", Arc::clone(&schema)).unwrap();
    for count in row_counts {
        let numbers = || 0..*count;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(numbers())),
            Arc::new(StringArray::from_iter(
                numbers().map(|number| (number % 3 > 0).then(|| format!("text {number}"))),
            )),
            Arc::new(
                TimestampMicrosecondArray::from_iter(numbers().map(|number| (number % 2 > 0).then_some(number * 1000)))
                    .with_timezone("Europe/Berlin"),
            ),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        writer.append(&EncodedRowGroup::encode(&schema, &[batch]).unwrap()).unwrap();
    }
    let footer_at = writer.size_bytes() as usize;
    writer.finish().unwrap();
    let file = medium.open("s").unwrap();
    let mut bytes = vec![0; medium.size_bytes(&file).unwrap() as usize];
    medium.read_at(&file, 0, &mut bytes).unwrap();
    (bytes, footer_at)
}

/// Any bytes with a right checksum of the footer are a segment that is consistent or an error; its pages are what the
/// footer says or errors.
pub fn run(input: &[u8]) {
    let mut bytes = input.to_vec();
    bytes.truncate(bytes.len() / PAGE_ALIGNMENT_BYTES * PAGE_ALIGNMENT_BYTES);
    let Some(trailer_at) = bytes.len().checked_sub(TRAILER_BYTES) else { return };
    let u64_at = |bytes: &[u8], at: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
    // Only what has a right checksum comes further.
    let footer_at = usize::try_from(u64_at(&bytes, trailer_at)).unwrap_or(usize::MAX);
    let checksum = bytes.get(footer_at..trailer_at + CHECKSUM_AT).map_or(0, xxh3_64);
    bytes[trailer_at + CHECKSUM_AT..trailer_at + CHECKSUM_AT + 8].copy_from_slice(&checksum.to_le_bytes());
    let info = SegmentInfo {
        name: "input".to_owned(),
        size_bytes: bytes.len() as u64,
        row_count: u64_at(&bytes, trailer_at + 16),
        footer_checksum: checksum,
    };
    let medium = MemoryMedium::new();
    let file = medium.create(&info.name).expect("a new medium is empty");
    medium.write_at(&file, 0, &bytes).expect("memory takes all");
    let schema = schema();
    let Ok(segment) = Segment::open(&medium, &info, &schema) else { return };

    assert!(segment.resident_bytes() < 10_000 + 8 * bytes.len(), "{} bytes", segment.resident_bytes());
    let (mut first_row, mut end) = (0, 0);
    for (index, row_group) in segment.row_groups().iter().enumerate() {
        assert_eq!((row_group.first_row(), row_group.pages().len()), (first_row, schema.fields().len()));
        first_row += row_group.row_count() as u64;
        for (column, place) in row_group.pages().iter().enumerate() {
            assert_eq!(place.offset_bytes(), end);
            end += place.stored_bytes() as u64;
            let mut page = vec![0; place.stored_bytes()];
            medium.read_at(segment.file(), place.offset_bytes(), &mut page).expect("pages lie within the file");
            if let Ok(page) = segment.check_page(index, column, &page) {
                assert_eq!((page.value_count(), page.null_count()), (row_group.row_count(), place.null_count()));
                assert_eq!(page.zone_map(), place.zone_map());
                if let Ok(values) = page.decode(schema.field(column).data_type()) {
                    assert_eq!((values.len(), values.null_count()), (row_group.row_count(), place.null_count()));
                }
            }
        }
    }
    assert_eq!((first_row, end), (segment.row_count(), footer_at as u64));
}
