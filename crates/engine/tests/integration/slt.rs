//! The `.slt` files of `tests/slt`, each in four modes: caches off, cold, warm (every query twice, the second answer
//! counts) and starved (as warm, with 1 MiB for the caches).

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};
use thermocline_engine::{Error, Session};

use crate::harness::{self, MIB};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Mode {
    Off,
    Cold,
    Warm,
    Starved,
}

struct Tested {
    session: Session,
    mode: Mode,
}

#[async_trait]
impl AsyncDB for Tested {
    type Error = Error;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Error> {
        let statements = self.session.parse(sql)?;
        let twice =
            matches!(self.mode, Mode::Warm | Mode::Starved) && statements.iter().all(|statement| statement.is_query());
        if twice {
            self.session.sql(sql).await?.collect().await?;
        }
        let result = self.session.sql(sql).await?;
        let column_count = result.schema().fields().len();
        let batches = result.collect().await?;
        if column_count == 0 {
            return Ok(DBOutput::StatementComplete(0));
        }
        let rows = harness::rendered(&batches)
            .into_iter()
            .map(|row| {
                row.split('|')
                    .map(|value| if value.is_empty() { "(empty)".to_string() } else { value.to_string() })
                    .collect()
            })
            .collect();
        Ok(DBOutput::Rows { types: vec![DefaultColumnType::Any; column_count], rows })
    }

    async fn shutdown(&mut self) {}
}

async fn run_all(mode: Mode) {
    // Tests run in their package's folder. That folder's name when they were built may be of a clone that is gone.
    let root = Path::new("../../tests");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(root.join("slt")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let database = harness::database(256 * MIB);
        let session = database.session();
        match mode {
            Mode::Off => {
                harness::rows(&session, "SET thermocline.cache = 'off'").await;
            }
            Mode::Starved => {
                harness::rows(&session, "SET thermocline.cache_memory = '1MiB'").await;
            }
            Mode::Cold | Mode::Warm => {}
        }
        let data = root.join("data").canonicalize().unwrap();
        let script = std::fs::read_to_string(&file).unwrap().replace("$DATA", data.to_str().unwrap());
        let mut runner = Runner::new(|| async { Ok(Tested { session: session.clone(), mode }) });
        if let Err(error) = runner.run_script_async(&script).await {
            panic!("{} in mode {mode:?}:\n{error}", file.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_slt_file_passes_with_the_caches_off() {
    run_all(Mode::Off).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_slt_file_passes_cold() {
    run_all(Mode::Cold).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_slt_file_passes_warm() {
    run_all(Mode::Warm).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_slt_file_passes_with_starved_caches() {
    run_all(Mode::Starved).await;
}
