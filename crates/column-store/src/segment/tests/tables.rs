//! Random tables, and segments made of them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use thermocline_medium::Medium;
use thermocline_seeded::Random;

use crate::page::tests::arrays::{Nulls, SHAPES, array, types};
use crate::{EncodedRowGroup, Segment, SegmentError, SegmentInfo, SegmentWriter};

/// Types whose spelling is not their name alone.
fn more_types() -> Vec<DataType> {
    use arrow::datatypes::TimeUnit::*;
    vec![
        DataType::Decimal128(1, 0),
        DataType::Decimal128(38, 38),
        DataType::Decimal128(9, -3),
        DataType::Time32(Second),
        DataType::Time32(Millisecond),
        DataType::Time64(Microsecond),
        DataType::Duration(Nanosecond),
        DataType::Duration(Second),
        DataType::Timestamp(Millisecond, None),
        DataType::Timestamp(Microsecond, Some("+05:30".into())),
        DataType::Timestamp(Nanosecond, Some("America/Argentina/Buenos_Aires".into())),
    ]
}

/// All types that can be stored, some with several parameters.
pub(super) fn all_types() -> Vec<DataType> {
    types().into_iter().chain(more_types()).collect()
}

fn metadata(random: &mut Random) -> HashMap<String, String> {
    (0..random.below(4)).map(|_| (format!("key {}", random.below(9)), "ü".repeat(random.below(40)))).collect()
}

/// 1 to 8 columns of any types, some of whose names are the same.
pub(super) fn schema(random: &mut Random) -> SchemaRef {
    let types = all_types();
    let fields: Vec<Field> = (0..1 + random.below(8))
        .map(|_| {
            let name = *random.pick(&["a", "b", "", "zwölf \"Boxkämpfer\"", "a\0b"]);
            Field::new(name, random.pick(&types).clone(), !random.one_in(3)).with_metadata(metadata(random))
        })
        .collect();
    Arc::new(Schema::new(fields).with_metadata(metadata(random)))
}

/// Rows of these columns.
pub(super) fn batch(random: &mut Random, schema: &SchemaRef, row_count: usize) -> RecordBatch {
    let columns = schema.fields().iter().map(|field| {
        let nulls = match field.is_nullable() {
            true => *random.pick(&[Nulls::None, Nulls::Some, Nulls::Some, Nulls::All]),
            false => Nulls::None,
        };
        let shape = *random.pick(&SHAPES);
        array(random, field.data_type(), shape, nulls, row_count)
    });
    RecordBatch::try_new(Arc::clone(schema), columns.collect()).unwrap()
}

/// What a segment was made of.
#[derive(Debug)]
pub(crate) struct Table {
    pub(super) schema: SchemaRef,
    /// Of each row group all rows in one batch.
    pub(super) row_groups: Vec<RecordBatch>,
    pub(super) encoded: Vec<EncodedRowGroup>,
}

impl Table {
    /// Up to four row groups, each of several batches of odd sizes.
    pub(super) fn random(random: &mut Random) -> Self {
        let schema = schema(random);
        let group_count = random.below(5);
        let batches = (0..group_count).map(|_| {
            let batches: Vec<RecordBatch> = (0..1 + random.below(3))
                .map(|_| {
                    let row_count = *random.pick(&[1, 7, 100, 1023, 1024, 1025, 2500]);
                    batch(random, &schema, row_count)
                })
                .collect();
            batches
        });
        let batches: Vec<Vec<RecordBatch>> = batches.collect();
        Self::of(&schema, &batches)
    }

    /// Of these batches of each row group.
    pub(crate) fn of(schema: &SchemaRef, batches: &[Vec<RecordBatch>]) -> Self {
        let encoded = batches.iter().map(|batches| EncodedRowGroup::encode(schema, batches).unwrap()).collect();
        let row_groups = batches.iter().map(|batches| concat_batches(schema, batches).unwrap()).collect();
        Self { schema: Arc::clone(schema), row_groups, encoded }
    }

    /// Two columns, two row groups, pages of the same lengths.
    pub(super) fn small() -> Self {
        let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int64, true));
        let schema: SchemaRef = Arc::new(Schema::new(fields.to_vec()));
        let column = |start: i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter((start..start + 1500).map(|at| Some(at * at % 977))))
        };
        let batch =
            |start| vec![RecordBatch::try_new(Arc::clone(&schema), vec![column(start), column(start + 5)]).unwrap()];
        Self::of(&schema, &[batch(0), batch(17)])
    }

    pub(crate) fn write(&self, medium: &Arc<dyn Medium>, name: &str) -> Result<SegmentInfo, SegmentError> {
        let mut writer = SegmentWriter::create(Arc::clone(medium), name, Arc::clone(&self.schema))?;
        for row_group in &self.encoded {
            writer.append(row_group)?;
        }
        writer.finish()
    }

    /// Reads everything page by page: an error, or whether it is this table.
    pub(crate) fn compare(&self, medium: &Arc<dyn Medium>, info: &SegmentInfo) -> Result<bool, SegmentError> {
        let segment = Segment::open(medium.as_ref(), info, &self.schema)?;
        if *segment.schema() != self.schema || segment.row_groups().len() != self.row_groups.len() {
            return Ok(false);
        }
        for (index, (row_group, written)) in segment.row_groups().iter().zip(&self.row_groups).enumerate() {
            for (column, values) in written.columns().iter().enumerate() {
                let place = row_group.page(column);
                let mut bytes = vec![0; place.stored_bytes()];
                medium.read_at(segment.file(), place.offset_bytes(), &mut bytes)?;
                let page = segment.check_page(index, column, &bytes)?;
                let read = page.decode(values.data_type()).unwrap();
                if read.to_data() != values.to_data() {
                    return Ok(false);
                }
                let again = segment.open_page(index, column, &bytes[..place.size_bytes()])?;
                assert_eq!(again.null_count(), values.null_count());
            }
        }
        Ok(true)
    }
}
