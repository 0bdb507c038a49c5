//! `thermocline demo`: a small data set, a few different questions, where their answers came from and what it cost.
//!
//! Owns the story and its honesty: every figure is measured in this run, every answer is compared with the one that the
//! cache had no part in, and losses are shown. Does not know more than any user: reasons come from `EXPLAIN CACHE` and
//! the tables of the schema `thermocline`.

mod answer;
mod chart;
mod data_set;
mod measure;
mod picture;
mod questions;
mod report;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thermocline_engine::Database;
use thermocline_hardware::process_memory;
use tokio::runtime::Handle;

use self::data_set::{DemoFile, Folder, Written};
use self::measure::{Measured, Measuring};
use self::picture::Picture;
use self::questions::QUESTIONS;
use self::report::{Held, HeldItem};
use crate::arguments::DemoArguments;
use crate::failure::{Failure, Result};
use crate::figures::{bytes_text, duration_text};
use crate::interrupt::Interrupt;
use crate::statement::until_interrupted;
use crate::terminal::Terminal;

/// Until a file is this old, its time stamps do not prove that it is unchanged, and its content is read again before
/// cached rows are used. That is not what the demo is about, so it waits.
const SETTLING_TIME: Duration = Duration::from_millis(2_050);

/// Runs the demo.
pub(crate) async fn run(
    arguments: &DemoArguments,
    database: &Arc<Database>,
    workers: &Handle,
    mut interrupt: Interrupt,
    stdout: Terminal,
) -> Result<()> {
    let picture = Picture::at(&arguments.svg)?;
    let folder = Folder::make(arguments.keep.as_deref())?;
    let started_in = std::env::current_dir();
    // Questions name files as a user would who stands in the folder.
    std::env::set_current_dir(folder.path())
        .map_err(|error| Failure::File { path: folder.path().to_owned(), error })?;
    let stop = Arc::new(AtomicBool::new(false));
    let demo = Demo {
        database: Arc::clone(database),
        stdout,
        scale: arguments.scale,
        folder: folder.path().to_owned(),
        is_kept: folder.is_kept(),
        picture: picture.path().to_owned(),
        replaces_picture: picture.replaces_another(),
        stop: Arc::clone(&stop),
    };
    let outcome = until_interrupted(workers, &mut interrupt, demo.tell(), || {}).await;
    // Whoever still writes into the folder ends now; dropping the folder removes it.
    stop.store(true, Ordering::Relaxed);
    if let Ok(started_in) = started_in {
        let _ = std::env::set_current_dir(started_in);
    }
    outcome
}

struct Demo {
    database: Arc<Database>,
    stdout: Terminal,
    scale: f64,
    folder: PathBuf,
    is_kept: bool,
    picture: PathBuf,
    replaces_picture: bool,
    stop: Arc<AtomicBool>,
}

impl Demo {
    async fn tell(self) -> Result<()> {
        let paint = self.stdout.paint;
        self.say(&format!(
            "\n{}  {}\n",
            paint.bold("Thermocline demo"),
            paint.dim("ask raw files; ask something similar; see where the answer comes from")
        ))?;
        let total_bytes = self.generate().await?;
        let mut measuring = Measuring::begin(&self.database).await?;
        self.look(&measuring).await?;
        let mut measured = Vec::with_capacity(QUESTIONS.len());
        for (index, question) in QUESTIONS.iter().enumerate() {
            let one = measuring.ask(question).await?;
            self.say(&report::block(index + 1, question, &one, paint))?;
            measured.push(one);
        }
        let held = self.held(&measuring).await?;
        self.say(&report::summary(QUESTIONS, &measured, &held, paint))?;
        self.draw(total_bytes, &measured)?;
        let remark = if self.replaces_picture { " (in place of the one that was there)" } else { "" };
        self.say(&format!("\n    picture   {}{}", self.picture.display(), self.stdout.paint.dim(remark)))?;
        if self.is_kept {
            self.say(&format!("    data      {}", self.folder.display()))?;
        }
        self.say(&format!("    yours     {}\n", paint.cyan("thermocline -c \"SELECT count(*) FROM 'your.ndjson'\"")))
    }

    /// Writes the files and waits until their time stamps can be trusted. Returns their size.
    async fn generate(&self) -> Result<u64> {
        let mut total_bytes = 0;
        for file in DemoFile::ALL {
            let written = self.write(file).await?;
            total_bytes += written.size_bytes;
            self.say(&format!(
                "    {:<14}{:>8}  {}",
                file.name(),
                bytes_text(written.size_bytes),
                self.stdout.paint.dim(&format!(
                    "{}, written in {}",
                    file.description(),
                    duration_text(written.elapsed_ns)
                ))
            ))?;
        }
        tokio::time::sleep(SETTLING_TIME).await;
        Ok(total_bytes)
    }

    async fn write(&self, file: DemoFile) -> Result<Written> {
        let (folder, scale, stop) = (self.folder.clone(), self.scale, Arc::clone(&self.stop));
        let (thread_count, clock) = (self.database.threads(), Arc::clone(self.database.clock()));
        tokio::task::spawn_blocking(move || data_set::write(file, &folder, scale, thread_count, &clock, &stop))
            .await
            .unwrap_or_else(|error| Err(Failure::Fault(format!("generating {}: {error}", file.name()))))
    }

    /// Lets the engine see the files' schemas, so that no question pays for it.
    async fn look(&self, measuring: &Measuring) -> Result<()> {
        let clock = self.database.clock();
        let started_ns = clock.monotonic_ns();
        let mut column_count = 0;
        for file in DemoFile::ALL {
            let result = measuring.session().sql(&format!("SELECT * FROM '{}' LIMIT 0", file.name())).await?;
            column_count += result.schema().fields().len();
            result.collect().await?;
        }
        let elapsed_ns = clock.monotonic_ns().saturating_sub(started_ns);
        self.say(&format!(
            "    {}\n",
            self.stdout.paint.dim(&format!(
                "{column_count} columns and their types found in {}: nothing is declared, nothing is loaded",
                duration_text(elapsed_ns)
            ))
        ))
    }

    async fn held(&self, measuring: &Measuring) -> Result<Held> {
        let columns = ["id", "path", "unnest", "predicate", "row_count", "size_bytes", "use_count"];
        // A positional map has no rows.
        let sql = "SELECT * FROM thermocline.cache_items WHERE layout IS DISTINCT FROM 'map' ORDER BY id";
        let rows = measuring.rows(sql, &columns).await?;
        let mut items = Vec::new();
        for row in rows {
            let Ok([id, path, unnest, predicate, row_count, size_bytes, use_count]) = <[String; 7]>::try_from(row)
            else {
                continue;
            };
            let file = Path::new(&path).file_name().map_or(path.clone(), |name| name.to_string_lossy().into_owned());
            let figure = |text: String| text.parse().unwrap_or(0);
            items.push(HeldItem {
                id,
                file,
                predicate,
                unnest,
                row_count: figure(row_count),
                size_bytes: figure(size_bytes),
                use_count: figure(use_count),
            });
        }
        let budget = self.database.budget();
        Ok(Held {
            budget_bytes: budget.limit_bytes(),
            cache_bytes: budget.cache_reserved_bytes(),
            private_bytes: process_memory().private_bytes(),
            items,
        })
    }

    fn draw(&self, total_bytes: u64, measured: &[Measured]) -> Result<()> {
        let groups: Vec<chart::Group<'_>> = QUESTIONS
            .iter()
            .zip(measured)
            .map(|(question, one)| chart::Group {
                label: question.title,
                off_ns: one.off_ns,
                first_ns: one.first.elapsed_ns,
                again_ns: one.again.elapsed_ns,
            })
            .collect();
        let machine = self.database.machine();
        let remark = format!(
            "TPC-H scale {}: {} of NDJSON and CSV, nothing loaded. {}, {} threads. Files in the page cache.",
            self.scale,
            bytes_text(total_bytes),
            machine.cpu_model,
            self.database.threads()
        );
        picture::draw(&self.picture, |file| file.write_all(chart::svg(&remark, &groups).as_bytes()))
    }

    fn say(&self, text: &str) -> Result<()> {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(Failure::output)
    }
}
