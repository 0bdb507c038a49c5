//! Footers that contradict themselves, and statistics that mislead.

use datafusion::parquet::data_type::ByteArray;
use datafusion::parquet::file::metadata::{
    ColumnChunkMetaDataBuilder, FileMetaData, ParquetMetaData, RowGroupMetaDataBuilder,
};
use datafusion::parquet::file::properties::EnabledStatistics;
use datafusion::parquet::file::statistics::Statistics as ChunkStatistics;

use super::*;
use crate::parquet_table::trust::trusted;

const SIZE_BYTES: u64 = 1 << 20;

/// The footer of a file of one row group, with its row group and first chunk changed.
async fn changed(
    row_group: impl FnOnce(RowGroupMetaDataBuilder) -> RowGroupMetaDataBuilder,
    chunk: impl FnOnce(ColumnChunkMetaDataBuilder) -> ColumnChunkMetaDataBuilder,
) -> ParquetMetaData {
    let folder = Folder::new();
    let path = folder.write("t.parquet", &batch(vec![("s", utf8(&["a"; 100])), ("id", int64(0..100))]));
    let footer = footer::read(&open(&path)).await.unwrap();
    let of_group = footer.row_group(0).clone();
    let mut chunks = of_group.columns().to_vec();
    let first = chunks.remove(0);
    chunks.insert(0, chunk(first.into_builder()).build().unwrap());
    let of_group = row_group(of_group.into_builder()).set_column_metadata(chunks).build().unwrap();
    footer.into_builder().set_row_groups(vec![of_group]).build()
}

#[tokio::test]
async fn footers_that_contradict_themselves_are_refused() {
    assert!(trusted(changed(|group| group, |chunk| chunk).await, SIZE_BYTES).is_ok());
    for (footer, reason) in [
        (changed(|group| group, |chunk| chunk.set_data_page_offset(-4)).await, "from byte -4 on"),
        (changed(|group| group, |chunk| chunk.set_total_compressed_size(-1)).await, "claims -1 bytes"),
        (changed(|group| group, |chunk| chunk.set_total_compressed_size(1 << 21)).await, "claims 2097152 bytes"),
        (changed(|group| group, |chunk| chunk.set_total_compressed_size(i64::MAX)).await, "the file has 1048576 bytes"),
        (changed(|group| group.set_num_rows(1 << 45), |chunk| chunk).await, "100 values of 35184372088832 rows"),
        (changed(|group| group.set_num_rows(-1), |chunk| chunk).await, "claims -1 rows"),
    ] {
        let error = trusted(footer, SIZE_BYTES).unwrap_err().to_string();
        assert!(error.contains("row group 0") && error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn a_dictionary_at_the_first_byte_is_none() {
    let footer = changed(|group| group, |chunk| chunk.set_dictionary_page_offset(Some(0))).await;
    let data_offset = footer.row_group(0).column(0).data_page_offset();
    let (size_bytes, statistics) = {
        let chunk = footer.row_group(0).column(0);
        (chunk.compressed_size(), chunk.statistics().cloned())
    };
    let believed = trusted(footer.clone(), SIZE_BYTES).unwrap();
    let chunk = believed.row_group(0).column(0);
    assert_eq!(chunk.dictionary_page_offset(), None);
    assert_eq!(chunk.byte_range(), (data_offset as u64, size_bytes as u64));
    assert_eq!(chunk.statistics().cloned(), statistics);
    // The chunk lies where its data does, which is behind the end of a shorter file.
    let error = trusted(footer, size_bytes as u64).unwrap_err().to_string();
    assert!(error.contains(&format!("from byte {data_offset} on")), "{error}");
}

/// The first chunk's statistics after they were judged, in a file by this writer, and whether its pages have any.
async fn judged(created_by: &str, statistics: ChunkStatistics) -> (Option<ChunkStatistics>, bool) {
    let footer = changed(|group| group, |chunk| chunk.set_statistics(statistics)).await;
    let of_file = footer.file_metadata();
    let by = FileMetaData::new(
        of_file.version(),
        of_file.num_rows(),
        Some(created_by.to_owned()),
        of_file.key_value_metadata().cloned(),
        of_file.schema_descr_ptr(),
        of_file.column_orders().cloned(),
    );
    let footer = trusted(ParquetMetaData::new(by, footer.row_groups().to_vec()), SIZE_BYTES).unwrap();
    let chunk = footer.row_group(0).column(0);
    // Those of the other column are as they were.
    assert!(footer.row_group(0).column(1).statistics().unwrap().min_bytes_opt().is_some());
    (chunk.statistics().cloned(), chunk.column_index_offset().is_some())
}

#[tokio::test]
async fn statistics_that_mislead_are_taken_out() {
    let texts = |nulls, is_deprecated| {
        let bound = |text: &str| Some(ByteArray::from(text));
        ChunkStatistics::byte_array(bound("a"), bound("z"), None, nulls, is_deprecated)
    };
    let has_bounds = |statistics: &Option<ChunkStatistics>| {
        statistics.as_ref().is_some_and(|of| of.min_bytes_opt().is_some() && of.max_bytes_opt().is_some())
    };
    let (sound, has_index) = judged("parquet-mr version 1.12", texts(Some(0), false)).await;
    assert!(has_index && has_bounds(&sound));
    let (deprecated, has_index) = judged("parquet-mr version 1.8", texts(Some(3), true)).await;
    assert!(!has_index && !has_bounds(&deprecated));
    assert_eq!(deprecated.unwrap().null_count_opt(), Some(3));
    let (uncounted, has_index) = judged("parquet-mr version 1.8", texts(None, false)).await;
    assert!(!has_index && uncounted.is_none());
    // Some write no zero.
    let (uncounted, has_index) = judged("parquet-rs version 52.0.0", texts(None, false)).await;
    assert!(has_index && has_bounds(&uncounted));
}

#[tokio::test]
async fn bloom_filters_of_floats_are_taken_out() {
    use datafusion::arrow::array::Float32Array;

    let folder = Folder::new();
    let path = folder.path("b.parquet");
    for with_statistics in [EnabledStatistics::None, EnabledStatistics::Page] {
        let zeros = Float64Array::from(vec![-0.0, 0.0, f64::NAN, -f64::NAN]);
        let small = Float32Array::from(vec![-0.0, 0.0, f32::NAN, -f32::NAN]);
        let columns: Vec<(&str, ArrayRef)> =
            vec![("x", Arc::new(zeros)), ("y", Arc::new(small)), ("id", int64([1, 2, 3, 4]))];
        let written = batch(columns);
        let properties = WriterProperties::builder()
            .set_bloom_filter_enabled(true)
            .set_statistics_enabled(with_statistics)
            .set_max_row_group_row_count(Some(1));
        let file = File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, written.schema(), Some(properties.build())).unwrap();
        writer.write(&written).unwrap();
        writer.close().unwrap();
        let footer = footer::read(&open(&path)).await.unwrap();
        for row_group in footer.row_groups() {
            let has_filter = |column: usize| {
                let chunk = row_group.column(column);
                (chunk.bloom_filter_offset().is_some(), chunk.bloom_filter_length().is_some())
            };
            assert_eq!([has_filter(0), has_filter(1)], [(false, false); 2]);
            assert!(has_filter(2).0);
        }
        let context = context(try_table(std::slice::from_ref(&path)).await.unwrap());
        for (condition, expected) in [("x = 0.0", vec!["1", "2"]), ("y = 0.0", vec!["1", "2"]), ("id = 3", vec!["3"])] {
            assert_eq!(rows(&context, &format!("SELECT id FROM p WHERE {condition}")).await, expected);
        }
    }
}
