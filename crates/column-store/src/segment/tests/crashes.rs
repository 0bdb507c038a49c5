use std::sync::Arc;

use thermocline_medium::{Exploration, Fault, Medium, MediumError, SimulatedMedium};
use thermocline_seeded::Random;

use super::tables::Table;
use crate::{Segment, SegmentError, SegmentInfo};

#[test]
fn a_finished_segment_with_a_synced_name_survives_every_crash_and_fault() {
    let table = Table::small();
    let explored = Exploration::default()
        .run(
            |medium: &Arc<dyn Medium>, done: &mut Option<SegmentInfo>| {
                let info = table.write(medium, "s")?;
                medium.sync_namespace()?;
                *done = Some(info);
                Ok(())
            },
            |medium, done| match done {
                Some(info) if table.compare(medium, info)? => Ok(()),
                Some(_) => Err("another segment than was written".into()),
                None => Ok(()),
            },
        )
        .unwrap_or_else(|finding| panic!("{finding}"));
    // Create, write, sync, sync of names.
    assert_eq!(explored.operation_count, 4);
}

#[test]
fn a_segment_whose_data_were_not_synced_is_found_missing() {
    // The test above is worth something only if the harness loses what was not synced.
    let table = Table::small();
    let medium: Arc<SimulatedMedium> = Arc::new(SimulatedMedium::new(512));
    let shared: Arc<dyn Medium> = medium.clone();
    let info = table.write(&shared, "s").unwrap();
    let lost: Arc<dyn Medium> = Arc::new(medium.crash(0));
    assert!(matches!(table.compare(&lost, &info), Err(SegmentError::Medium(MediumError::NotFound { .. }))));
}

/// More than one write.
fn large() -> Table {
    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};
    let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]));
    let batch = |seed| {
        let mut random = Random::new(seed);
        let numbers = (0..200_000).map(|_| random.next_u64() as i64);
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from_iter_values(numbers))]).unwrap()
    };
    Table::of(&schema, &[vec![batch(1)], vec![batch(2)], vec![batch(3)]])
}

#[test]
fn a_full_disk_at_any_operation_is_an_error_and_leaves_no_file() {
    let table = large();
    let whole = Arc::new(SimulatedMedium::new(512));
    let shared: Arc<dyn Medium> = whole.clone();
    let info = table.write(&shared, "s").unwrap();
    assert!(table.compare(&shared, &info).unwrap());
    let operations = whole.operations();
    assert!(operations.len() > 4, "{operations:?}");
    for write in operations.iter().filter(|operation| operation.starts_with("write")) {
        let length: usize = write.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(length == 2 << 20 || length.is_multiple_of(4096), "{write}");
    }
    for (index, operation) in operations.iter().enumerate() {
        for fault in [Fault::NoSpace, Fault::InputOutput] {
            let medium = Arc::new(SimulatedMedium::new(512));
            medium.fail_at(index as u64, fault);
            let shared: Arc<dyn Medium> = medium.clone();
            let error = table.write(&shared, "s").unwrap_err();
            let expected = matches!(
                (&error, fault),
                (SegmentError::Medium(MediumError::OutOfSpace { .. }), Fault::NoSpace)
                    | (SegmentError::Medium(MediumError::Io { .. }), Fault::InputOutput)
            );
            assert!(expected, "{fault:?} at {operation}: {error}");
            assert!(medium.list().unwrap().is_empty(), "{fault:?} at {operation}");
        }
    }
}

#[test]
fn a_writer_takes_nothing_after_a_failed_write() {
    let table = large();
    let medium = Arc::new(SimulatedMedium::new(512));
    medium.fail_at(1, Fault::NoSpace);
    let shared: Arc<dyn Medium> = medium.clone();
    let mut writer = crate::SegmentWriter::create(shared, "s", Arc::clone(&table.schema)).unwrap();
    let appended: Vec<_> = table.encoded.iter().map(|row_group| writer.append(row_group)).collect();
    let broken = appended.iter().position(Result::is_err).unwrap();
    for later in &appended[broken + 1..] {
        assert!(matches!(later, Err(SegmentError::Broken { .. })));
    }
    assert!(matches!(writer.finish(), Err(SegmentError::Broken { .. })));
    assert!(medium.list().unwrap().is_empty());
}

#[test]
fn a_read_that_fails_is_an_error() {
    let table = Table::small();
    let medium = Arc::new(SimulatedMedium::new(512));
    let shared: Arc<dyn Medium> = medium.clone();
    let info = table.write(&shared, "s").unwrap();
    assert_eq!(medium.read_count(), 0, "what was written is not read back");
    assert!(table.compare(&shared, &info).unwrap());
    let read_count = medium.read_count();
    for index in 0..read_count {
        medium.fail_read_at(read_count * (index + 1) + index);
        let error = table.compare(&shared, &info).unwrap_err();
        assert!(matches!(error, SegmentError::Medium(MediumError::Io { .. })), "read {index}: {error}");
        // The rest of the reads, so that the count stays easy.
        while medium.read_count() < read_count * (index + 2) {
            let file = shared.open("s").unwrap();
            shared.read_at(&file, 0, &mut [0; 1]).unwrap();
        }
    }
    assert!(Segment::open(shared.as_ref(), &info, &table.schema).is_ok());
}
