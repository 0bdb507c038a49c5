//! The 22 queries of TPC-H over text files, Parquet files, column tables and tables in memory: with pipelines and
//! without, all the same.

use std::fs::File;
use std::path::Path;

use thermocline_engine::Session;
use thermocline_tpch::{DataSet, QUERIES, TextFormat, TpchTable, small_text, write_table};

use crate::harness::{Folder, MIB, database, rows, sorted_rows};
use crate::pipelines_and_operators::{is_fused, stock};
use crate::stars;

/// Enough that every query finds rows, and small enough to be asked nine times each.
const SCALE: f64 = 0.01;

fn write_files(folder: &Path) {
    let text = small_text();
    let data = DataSet { scale: SCALE, text: &text, thread_count: 2 };
    for table in TpchTable::ALL {
        let mut file = File::create(folder.join(format!("{}.csv", table.name()))).unwrap();
        write_table(data, table, TextFormat::Csv, &mut file).unwrap();
    }
}

/// Makes `prefix` + name a table of each CSV file, with decimals as TPC-H declares them.
async fn create_text_tables(session: &Session, folder: &Path, prefix: &str) {
    for table in TpchTable::ALL {
        let (name, columns) = (table.name(), table.columns_sql());
        let location = folder.join(format!("{name}.csv")).display().to_string();
        let sql = format!("CREATE EXTERNAL TABLE {prefix}{name} ({columns}) STORED AS CSV LOCATION '{location}'");
        rows(session, &sql).await;
    }
}

async fn create_parquet_tables(session: &Session, folder: &Path) {
    create_text_tables(session, folder, "text_").await;
    for table in TpchTable::ALL {
        let name = table.name();
        let location = folder.join(format!("{name}.parquet")).display().to_string();
        rows(session, &format!("COPY text_{name} TO '{location}'")).await;
        rows(session, &format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{location}'")).await;
    }
}

async fn create_tables(session: &Session, folder: &Path) {
    create_text_tables(session, folder, "text_").await;
    for table in TpchTable::ALL {
        rows(session, &format!("CREATE TABLE {0} AS SELECT * FROM text_{0}", table.name())).await;
    }
}

#[tokio::test]
async fn tpch_is_answered_the_same_by_every_kind_of_table() {
    let folder = Folder::new();
    write_files(folder.path());
    let text_session = database(256 * MIB).session();
    create_text_tables(&text_session, folder.path(), "").await;
    let parquet_session = database(256 * MIB).session();
    create_parquet_tables(&parquet_session, folder.path()).await;
    let stored_session = stars::database(folder.path()).session();
    create_tables(&stored_session, folder.path()).await;
    let memory_session = database(256 * MIB).session();
    create_tables(&memory_session, folder.path()).await;

    let kinds = [
        ("text files", text_session),
        ("Parquet files", parquet_session),
        ("column tables", stored_session),
        ("tables in memory", memory_session),
    ];
    let mut fused = [0; 4];
    for (name, sql) in QUERIES {
        let expected = stock(&kinds[0].1, sql).await;
        assert!(!expected.is_empty(), "{name} finds nothing");
        // Sums of floats would be a little less than what they stand for, and lose a third of the rows.
        let written = sql.replace("0.06 - 0.01", "0.05").replace("0.06 + 0.01", "0.07");
        if written != sql {
            assert_eq!(sorted_rows(&kinds[0].1, &written).await, expected, "{name}");
        }
        for (at, (kind, session)) in kinds.iter().enumerate() {
            assert_eq!(sorted_rows(session, sql).await, expected, "{name} over {kind}");
            assert_eq!(stock(session, sql).await, expected, "{name} over {kind}, by operators");
            fused[at] += usize::from(is_fused(session, sql).await);
        }
    }
    // Text files are read by pipelines where a join's numbers are aggregated.
    assert!(fused[0] >= 3 && fused[1..].iter().all(|count| *count >= 11), "{fused:?} of 22 are fused");
}
