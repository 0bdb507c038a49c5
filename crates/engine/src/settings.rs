//! The settings a user can change with `SET thermocline.…`.
//!
//! Two kinds live side by side: those of one session (is the cache used, how many rows are sampled) and those of the
//! whole database (memory, allowed directories, the lock). The latter are shared by every session through
//! [`SharedSettings`], so that a change is seen everywhere at once; the former are copied with the session's
//! configuration.
//!
//! DataFusion hands each `SET` to [`ExtensionOptions::set`] with the prefix removed; parsing and validation happen
//! there, so a bad value is refused in an existing `SessionContext` just as in our own session.

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::{DataFusionError, Result, config_err};
use parking_lot::{Mutex, RwLock};
use thermocline_budget::{Budget, exact_bytes, parse_bytes};
use thermocline_hardware::Machine;
use thermocline_medium::Access;
use thermocline_operator_cache::{AdmissionRule, OperatorCache};
use thermocline_raw::OnError;

use crate::column_table::{ColumnTables, Reading};
use crate::database::Eviction;
use crate::error::Error;
use crate::page_pool::PagePool;
use crate::trace_file::TraceFile;

/// How a file that grew since it was last read is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Append {
    /// The old part is read again (not parsed) and must be unchanged; then what is cached of it stays valid.
    Verify,
    /// The old part is believed to be unchanged: the user promises that the file is only appended to.
    Trust,
}

/// Settings of the database, the same for all its sessions.
#[derive(Debug)]
pub struct SharedSettings {
    budget: Budget,
    cache: Arc<OperatorCache>,
    /// What `100%` of memory is.
    usable_bytes: u64,
    eviction: Eviction,
    trace: Arc<TraceFile>,
    pages: Arc<PagePool>,
    column_tables: Option<Arc<ColumnTables>>,
    /// Held while a part is changed of what is set as a whole, so that no other change is lost meanwhile.
    turn: Mutex<()>,
    /// The setting as the user wrote it, and what it means.
    access: RwLock<(String, Arc<Access>)>,
    locked: AtomicBool,
}

impl SharedSettings {
    /// Settings over `budget`, with every directory allowed and nothing locked.
    pub(crate) fn new(
        budget: Budget,
        cache: Arc<OperatorCache>,
        machine: &Machine,
        eviction: Eviction,
        trace: Arc<TraceFile>,
        pages: Arc<PagePool>,
        column_tables: Option<Arc<ColumnTables>>,
    ) -> Self {
        Self {
            budget,
            cache,
            usable_bytes: machine.usable_memory_bytes(),
            eviction,
            trace,
            pages,
            column_tables,
            turn: Mutex::new(()),
            access: RwLock::new((String::new(), Arc::new(Access::everything()))),
            locked: AtomicBool::new(false),
        }
    }

    /// How pages are read, and which of them stay.
    fn reading(&self) -> Reading {
        let without_tables = || Reading { policy: self.pages.policy(), ..Reading::default() };
        self.column_tables.as_ref().map_or_else(without_tables, |tables| tables.reading())
    }

    /// Changes a part of how pages are read.
    fn change_reading(&self, name: &str, change: impl FnOnce(Reading) -> Reading) -> Result<()> {
        let _turn = self.turn.lock();
        let reading = change(self.reading());
        match &self.column_tables {
            Some(tables) => tables.set_reading(reading).map_err(Error::into_datafusion),
            None if reading.simulated_bytes_per_s.is_some() => {
                config_err!("{name}: this database has no folder, and so no column tables")
            }
            None => {
                self.pages.set_policy(reading.policy);
                Ok(())
            }
        }
    }

    /// Changes a part of the rule of admission.
    fn change_admission(&self, change: impl FnOnce(AdmissionRule) -> AdmissionRule) {
        let _turn = self.turn.lock();
        self.cache.set_admission_rule(change(self.cache.admission_rule()));
    }

    /// Which files may be read and written.
    pub fn access(&self) -> Arc<Access> {
        Arc::clone(&self.access.read().1)
    }

    /// Whether settings can no longer be changed.
    pub fn is_locked(&self) -> bool {
        self.locked.load(Ordering::Acquire)
    }

    /// Refuses when the configuration is locked.
    pub fn check_unlocked(&self, name: &str) -> Result<()> {
        if self.is_locked() {
            return config_err!(
                "cannot change {name}: the configuration is locked (thermocline.lock_configuration = true)"
            );
        }
        Ok(())
    }
}

/// The `thermocline.…` settings of one session.
#[derive(Debug, Clone)]
pub struct ThermoclineConfig {
    /// Whether scans use what is kept in memory, the operator cache and the buffer pool, and add to it.
    pub cache: bool,
    /// Whether aggregates over column tables run as fused pipelines where they can.
    pub fused_pipelines: bool,
    /// Run each query with and without caches and fused pipelines and compare the answers.
    pub verify: bool,
    /// How many records schema inference samples.
    pub sample_rows: usize,
    /// What a scan does with a bad record, unless the table says otherwise.
    pub on_error: OnError,
    /// How a grown file is treated, unless the table says otherwise.
    pub append: Append,
    shared: Arc<SharedSettings>,
}

/// Rows sampled by schema inference: enough that a rare field of one record in a thousand is seen with near certainty,
/// few enough (about 16 MB of 800-byte records) to be read in some 20 ms.
pub(crate) const DEFAULT_SAMPLE_ROWS: usize = 20_480;

impl ThermoclineConfig {
    /// The defaults of a new session.
    pub fn new(shared: Arc<SharedSettings>) -> Self {
        Self {
            cache: true,
            fused_pipelines: true,
            verify: false,
            sample_rows: DEFAULT_SAMPLE_ROWS,
            on_error: OnError::Fail,
            append: Append::Verify,
            shared,
        }
    }

    /// The database's settings.
    pub fn shared(&self) -> &Arc<SharedSettings> {
        &self.shared
    }
}

/// `on`/`off` in the spellings SQL users write.
pub(crate) fn parse_switch(name: &str, value: &str) -> Result<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "on" | "true" | "1" | "yes" => Ok(true),
        "off" | "false" | "0" | "no" => Ok(false),
        other => config_err!("{name}: expected 'on' or 'off', found '{other}'"),
    }
}

/// `fail`/`skip`.
pub(crate) fn parse_on_error(name: &str, value: &str) -> Result<OnError> {
    match value.trim().to_ascii_lowercase().as_str() {
        "fail" => Ok(OnError::Fail),
        "skip" => Ok(OnError::Skip),
        other => config_err!("{name}: expected 'fail' or 'skip', found '{other}'"),
    }
}

/// `at_once`/`later`.
fn parse_whole_columns(name: &str, value: &str) -> Result<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "at_once" => Ok(true),
        "later" => Ok(false),
        other => config_err!("{name}: expected 'at_once' or 'later', found '{other}'"),
    }
}

/// `verify`/`trust`.
pub(crate) fn parse_append(name: &str, value: &str) -> Result<Append> {
    match value.trim().to_ascii_lowercase().as_str() {
        "verify" => Ok(Append::Verify),
        "trust" => Ok(Append::Trust),
        other => config_err!("{name}: expected 'verify' or 'trust', found '{other}'"),
    }
}

/// A number of rows; `-1` means all.
pub(crate) fn parse_sample_rows(name: &str, value: &str) -> Result<usize> {
    match value.trim().parse::<i64>() {
        Ok(-1) => Ok(usize::MAX),
        Ok(rows) if rows > 0 => Ok(rows as usize),
        _ => config_err!("{name}: expected a positive number of rows, or -1 for all, found '{value}'"),
    }
}

/// A share from 0 to 1.
fn parse_share(name: &str, value: &str) -> Result<f64> {
    match value.trim().parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => config_err!("{name}: expected a number from 0 to 1, found '{value}'"),
    }
}

fn switch(value: bool) -> String {
    if value { "on" } else { "off" }.to_string()
}

impl ExtensionOptions for ThermoclineConfig {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let name = format!("thermocline.{key}");
        self.shared.check_unlocked(&name)?;
        let bytes = |value: &str| {
            parse_bytes(value, self.shared.usable_bytes)
                .map_err(|error| DataFusionError::Configuration(format!("{name}: {error}")))
        };
        match key {
            "cache" => self.cache = parse_switch(&name, value)?,
            "fused_pipelines" => self.fused_pipelines = parse_switch(&name, value)?,
            "verify" => self.verify = parse_switch(&name, value)?,
            "sample_rows" => self.sample_rows = parse_sample_rows(&name, value)?,
            "on_error" => self.on_error = parse_on_error(&name, value)?,
            "append" => self.append = parse_append(&name, value)?,
            "memory" => self.shared.budget.set_limit(bytes(value)?),
            "cache_memory" => {
                let limit = match value.trim().to_ascii_lowercase().as_str() {
                    "none" | "" => None,
                    _ => Some(bytes(value)?),
                };
                self.shared.budget.set_cache_limit(limit);
            }
            "eviction" => {
                return config_err!("{name} cannot be changed: the policy is chosen when the database is opened");
            }
            "layout" => {
                let rule = value.parse().map_err(|error| DataFusionError::Configuration(format!("{name}: {error}")))?;
                self.shared.cache.set_layout_rule(rule);
            }
            "admission" => {
                let mode = value.parse().map_err(|error| DataFusionError::Configuration(format!("{name}: {error}")))?;
                self.shared.change_admission(|rule| AdmissionRule { mode, ..rule });
            }
            "admission_threshold" => {
                let threshold = parse_share(&name, value)?;
                self.shared.change_admission(|rule| AdmissionRule { threshold, ..rule });
            }
            "whole_columns" => {
                let bets_at_once = parse_whole_columns(&name, value)?;
                self.shared.change_admission(|rule| AdmissionRule { bets_at_once, ..rule });
            }
            "page_policy" => {
                let policy = value.trim().to_ascii_lowercase().parse();
                let policy = policy.map_err(|error| DataFusionError::Configuration(format!("{name}: {error}")))?;
                self.shared.change_reading(&name, |reading| Reading { policy, ..reading })?;
            }
            "simulated_bandwidth" => {
                let simulated_bytes_per_s = match value.trim().to_ascii_lowercase().as_str() {
                    "none" | "" => None,
                    _ => match bytes(value)? {
                        0 => return config_err!("{name}: expected bytes a second or 'none', found '{value}'"),
                        bytes_per_s => Some(bytes_per_s),
                    },
                };
                self.shared.change_reading(&name, |reading| Reading { simulated_bytes_per_s, ..reading })?;
            }
            "trace" => match value.trim() {
                nothing if nothing.is_empty() || nothing.eq_ignore_ascii_case("none") => self.shared.trace.close(),
                path => {
                    let refused = |error| DataFusionError::Configuration(format!("{name}: {error}"));
                    self.shared.access().check(Path::new(path)).map_err(|error| refused(error.to_string()))?;
                    self.shared.trace.open(Path::new(path)).map_err(refused)?;
                }
            },
            "allowed_directories" => {
                let directories: Vec<&str> = value
                    .trim()
                    .trim_start_matches('[')
                    .trim_end_matches(']')
                    .split(',')
                    .map(|part| part.trim().trim_matches('\''))
                    .filter(|part| !part.is_empty())
                    .collect();
                let access = if directories.is_empty() {
                    Access::everything()
                } else {
                    Access::within(directories)
                        .map_err(|error| DataFusionError::Configuration(format!("{name}: {error}")))?
                };
                *self.shared.access.write() = (value.trim().to_string(), Arc::new(access));
            }
            "lock_configuration" => {
                if parse_switch(&name, value)? {
                    self.shared.locked.store(true, Ordering::Release);
                }
            }
            _ => {
                let known: Vec<String> = self.entries().into_iter().map(|entry| entry.key).collect();
                return config_err!("there is no setting {name}; the settings are {}", known.join(", "));
            }
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |key: &str, value: String, description: &'static str| ConfigEntry {
            key: format!("thermocline.{key}"),
            value: Some(value),
            description,
        };
        let sample_rows = if self.sample_rows == usize::MAX { "-1".to_string() } else { self.sample_rows.to_string() };
        vec![
            entry(
                "memory",
                exact_bytes(self.shared.budget.limit_bytes()),
                "memory for caches and running queries together",
            ),
            entry(
                "cache_memory",
                self.shared.budget.cache_limit_bytes().map_or("none".to_string(), exact_bytes),
                "a cap on the caches alone, within thermocline.memory",
            ),
            entry("eviction", self.shared.eviction.to_string(), "which cached items make room for others"),
            entry(
                "layout",
                self.shared.cache.layout_rule().to_string(),
                "how cached rows lie in memory, or what decides it",
            ),
            entry(
                "admission",
                self.shared.cache.admission_rule().mode.to_string(),
                "what the first scan of a file leaves: rows (eager), positions of records (lazy), or what is cheaper (auto)",
            ),
            entry(
                "admission_threshold",
                self.shared.cache.admission_rule().threshold.to_string(),
                "the share of a query's time, from 0 to 1, beyond which thermocline.admission = 'auto' keeps positions",
            ),
            entry(
                "whole_columns",
                if self.shared.cache.admission_rule().bets_at_once { "at_once" } else { "later" }.to_string(),
                "whether the first query of a file may keep its columns whole (at_once), or the second, or idle time (later)",
            ),
            entry(
                "page_policy",
                self.shared.reading().policy.to_string(),
                "which pages of column tables and Parquet files make room for others",
            ),
            entry(
                "simulated_bandwidth",
                self.shared.reading().simulated_bytes_per_s.map_or("none".to_string(), exact_bytes),
                "bytes a second that reads of column tables are slowed down to, for experiments",
            ),
            entry(
                "trace",
                self.shared.trace.describe(),
                "the file that requests of the cache are recorded in, or none",
            ),
            entry("cache", switch(self.cache), "whether scans use the operator cache and the buffer pool"),
            entry(
                "fused_pipelines",
                switch(self.fused_pipelines),
                "whether aggregates over column tables run as fused pipelines",
            ),
            entry(
                "verify",
                switch(self.verify),
                "run each query with and without caches and fused pipelines, and compare",
            ),
            entry("sample_rows", sample_rows, "records that schema inference samples; -1 for all"),
            entry(
                "on_error",
                match self.on_error {
                    OnError::Fail => "fail",
                    OnError::Skip => "skip",
                }
                .to_string(),
                "what a scan does with a bad record: fail or skip",
            ),
            entry(
                "append",
                match self.append {
                    Append::Verify => "verify",
                    Append::Trust => "trust",
                }
                .to_string(),
                "whether the old part of a grown file is verified or trusted",
            ),
            entry(
                "allowed_directories",
                self.shared.access.read().0.clone(),
                "directories that SQL may read and write; empty: all",
            ),
            entry("lock_configuration", self.shared.is_locked().to_string(), "once true, no setting can be changed"),
        ]
    }
}

impl ConfigExtension for ThermoclineConfig {
    const PREFIX: &'static str = "thermocline";
}

impl fmt::Display for Append {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Verify => "verify",
            Self::Trust => "trust",
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use thermocline_placement::page_cache::PagePolicyName;

    use super::*;
    use crate::database::{Database, DatabaseOptions};

    #[test]
    fn settings_that_are_changed_at_once_are_all_changed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Some(folder.path().to_path_buf());
        let database = Database::open(DatabaseOptions { folder, ..DatabaseOptions::default() }).unwrap();
        let settings = database.settings();
        let (sender, other_is_done) = mpsc::channel();
        thread::scope(|scope| {
            settings
                .change_reading("thermocline.page_policy", |reading| {
                    scope.spawn(move || {
                        let mut config = ThermoclineConfig::new(Arc::clone(settings));
                        config.set("simulated_bandwidth", "1GiB").unwrap();
                        config.set("admission_threshold", "0.25").unwrap();
                        sender.send(()).unwrap();
                    });
                    // It has to wait for this one, which gives it the time not to.
                    assert!(other_is_done.recv_timeout(Duration::from_millis(100)).is_err());
                    Reading { policy: PagePolicyName::LeastRecentlyUsed, ..reading }
                })
                .unwrap();
        });
        let expected = Reading { policy: PagePolicyName::LeastRecentlyUsed, simulated_bytes_per_s: Some(1 << 30) };
        assert_eq!(settings.reading(), expected);
        assert_eq!(settings.pages.policy(), expected.policy);
        assert_eq!(settings.cache.admission_rule().threshold, 0.25);
    }
}
