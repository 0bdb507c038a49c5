//! Timestamps of old writers.

use datafusion::parquet::data_type::{Int96, Int96Type};
use datafusion::parquet::file::writer::SerializedFileWriter;
use datafusion::parquet::schema::parser::parse_message_type;

use super::*;

/// Julian day of 1970-01-01.
const EPOCH_DAY: i64 = 2_440_588;

fn instant(days: i64, nanoseconds: u64) -> Int96 {
    let mut instant = Int96::new();
    instant.set_data(nanoseconds as u32, (nanoseconds >> 32) as u32, (EPOCH_DAY + days) as u32);
    instant
}

#[tokio::test]
async fn years_that_nanoseconds_cannot_hold_are_read() {
    let folder = Folder::new();
    let path = folder.path("t.parquet");
    let schema = Arc::new(parse_message_type("message spark_schema { optional int96 t; }").unwrap());
    let mut writer = SerializedFileWriter::new(File::create(&path).unwrap(), schema, Default::default()).unwrap();
    let mut row_group = writer.next_row_group().unwrap();
    let mut column = row_group.next_column().unwrap().unwrap();
    let instants = [instant(0, 1_500_000), instant(2_932_896, 0), instant(-719_162, 86_399_999_999_000)];
    column.typed::<Int96Type>().write_batch(&instants, Some(&[1, 1, 0, 1]), None).unwrap();
    column.close().unwrap();
    row_group.close().unwrap();
    writer.close().unwrap();
    let context = context(try_table(&[path]).await.unwrap());
    let all = ["", "0001-01-01T23:59:59.999999", "1970-01-01T00:00:00.001500", "9999-12-31T00:00:00"];
    assert_eq!(rows(&context, "SELECT t FROM p").await, all);
    // Constants are nanoseconds in SQL, unless they are cast.
    for late in ["'2020-01-01T00:00:00'", "arrow_cast('3000-01-01T00:00:00', 'Timestamp(Microsecond, None)')"] {
        let sql = format!("SELECT t FROM p WHERE t > {late}");
        assert_eq!(rows(&context, &sql).await, ["9999-12-31T00:00:00"], "{late}");
    }
}
