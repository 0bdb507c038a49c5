//! Gives an existing DataFusion `SessionContext` Thermocline's caches.
//!
//! `cargo run --release --example datafusion -p thermocline`

use std::fmt::Write;

use thermocline::datafusion::prelude::{CsvReadOptions, SessionContext};
use thermocline::{Database, DatabaseOptions, add_caches};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let events = folder.path().join("events.ndjson");
    let mut text = String::new();
    for id in 0..200_000 {
        writeln!(text, "{{\"id\":{id},\"kind\":{},\"value\":{}.5}}", id % 4, id % 1000)?;
    }
    std::fs::write(&events, text)?;
    let kinds = folder.path().join("kinds.csv");
    std::fs::write(&kinds, "kind,name\n0,open\n1,read\n2,write\n3,close\n")?;

    // A context of yours, with tables of yours.
    let context = SessionContext::new();
    context.register_csv("kinds", &kinds.display().to_string(), CsvReadOptions::new()).await?;

    // One call: paths become tables, raw scans are cached within the budget, your tables stay.
    let database = Database::open(DatabaseOptions { memory_bytes: Some(256 << 20), ..Default::default() })?;
    let context = add_caches(&database, &context);

    for low in [100, 200, 300] {
        let sql = format!(
            "SELECT k.name, count(*) AS n, avg(e.value) AS mean
             FROM '{}' AS e JOIN kinds AS k ON e.kind = k.kind
             WHERE e.value BETWEEN {low} AND 900 GROUP BY k.name ORDER BY k.name",
            events.display()
        );
        context.sql(&sql).await?.show().await?;
    }
    context
        .sql("SELECT decision, count(*) AS times FROM thermocline.decisions GROUP BY decision")
        .await?
        .show()
        .await?;
    Ok(())
}
