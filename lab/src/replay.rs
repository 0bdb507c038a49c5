//! `lab replay`: a recorded cache trace under other policies and other amounts of memory.
//!
//! Owns the table; replaying is `thermocline-placement`'s.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use thermocline_budget::{format_bytes, parse_bytes};
use thermocline_placement::operator_cache::PolicyName;
use thermocline_placement::operator_cache::offline::{self, replay_plan};
use thermocline_placement::operator_cache::replay::{Newcomers, Replayed, recorded, replay};
use thermocline_placement::operator_cache::trace::{self, Request};

/// Shares of what all items take together that are tried when no memory is named.
const SHARES: [&str; 6] = ["3%", "6%", "12%", "25%", "50%", "100%"];

/// Options of `lab replay`.
#[derive(Args)]
pub(crate) struct ReplayArguments {
    /// The trace: what `SET thermocline.trace = 'path'` wrote
    trace: PathBuf,
    /// A policy's name, online or offline, or all; may be repeated
    #[arg(long, value_name = "NAME", default_value = "all")]
    policy: Vec<String>,
    /// Memory of the cache, such as 512MiB, or 25% of what all items of the trace take together; may be repeated
    #[arg(long, value_name = "SIZE")]
    memory: Vec<String>,
    /// What is done with an item that is not held
    #[arg(long, value_enum, default_value_t = Admission::Weighed)]
    newcomers: Admission,
}

/// What is done with an item that is not held.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Admission {
    /// It must be worth what it displaces, if the policy says so: as the cache does
    Weighed,
    /// It is taken whenever it fits
    Taken,
}

impl From<Admission> for Newcomers {
    fn from(admission: Admission) -> Self {
        match admission {
            Admission::Weighed => Self::Weighed,
            Admission::Taken => Self::Taken,
        }
    }
}

/// Reads the trace and gives the table.
pub(crate) fn run(arguments: &ReplayArguments) -> Result<String, String> {
    let path = arguments.trace.display();
    let text = std::fs::read_to_string(&arguments.trace).map_err(|error| format!("{path}: {error}"))?;
    let requests = trace::parse(&text).map_err(|error| format!("{path}: {error}"))?;
    let names: Vec<&str> = arguments.policy.iter().map(String::as_str).collect();
    let sizes: Vec<&str> = match arguments.memory.as_slice() {
        [] => SHARES.to_vec(),
        given => given.iter().map(String::as_str).collect(),
    };
    table(&requests, &names, &sizes, arguments.newcomers.into())
}

/// Seconds and hits of each policy under each memory; lines of plain text.
fn table(requests: &[Request], names: &[&str], sizes: &[&str], newcomers: Newcomers) -> Result<String, String> {
    let mut item_bytes: HashMap<u64, u64> = HashMap::new();
    for request in requests {
        let bytes = item_bytes.entry(request.item).or_default();
        *bytes = request.size_bytes.max(*bytes);
    }
    let all_bytes: u64 = item_bytes.values().sum();
    let memory: Vec<u64> = sizes
        .iter()
        .map(|size| parse_bytes(size, all_bytes).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    let known: Vec<&'static str> = PolicyName::ALL
        .iter()
        .map(|name| name.policy().name())
        .chain(offline::ALL.iter().map(|policy| policy.name()))
        .collect();
    if let Some(unknown) = names.iter().find(|name| **name != "all" && !known.contains(name)) {
        return Err(format!("--policy: there is no policy '{unknown}'; there are {} and all", known.join(", ")));
    }
    let is_wanted = |name: &str| names.iter().any(|wanted| *wanted == name || *wanted == "all");
    let mut rows: Vec<(&str, Vec<Replayed>)> = Vec::new();
    for name in PolicyName::ALL {
        let policy = name.policy();
        if is_wanted(policy.name()) {
            let outcomes = memory.iter().map(|bytes| replay(requests, policy, *bytes, newcomers)).collect();
            rows.push((policy.name(), outcomes));
        }
    }
    for policy in offline::ALL {
        if is_wanted(policy.name()) {
            let outcomes = memory.iter().map(|bytes| replay_plan(requests, &policy.plan(requests, *bytes))).collect();
            rows.push((policy.name(), outcomes));
        }
    }
    Ok(render(requests, all_bytes, item_bytes.len(), &memory, &rows))
}

fn render(
    requests: &[Request],
    all_bytes: u64,
    item_count: usize,
    memory: &[u64],
    rows: &[(&str, Vec<Replayed>)],
) -> String {
    let was = recorded(requests);
    let mut text = format!(
        "{} requests for {item_count} items of {} together; when recorded: {:.3} s, {} hits\n\n{:<20}",
        requests.len(),
        format_bytes(all_bytes),
        was.spent_s,
        was.hit_count,
        "seconds (hits)",
    );
    for bytes in memory {
        let _ = write!(text, "{:>20}", rounded(*bytes));
    }
    for (name, outcomes) in rows {
        let _ = write!(text, "\n{name:<20}");
        for outcome in outcomes {
            let _ = write!(text, "{:>20}", format!("{:.3} ({})", outcome.spent_s, outcome.hit_count));
        }
    }
    text
}

/// Bytes in the largest unit that leaves three digits, as a heading.
fn rounded(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// 1 is dear, 2 is cheap; each takes 100 bytes; they come in turn.
    fn requests() -> Vec<Request> {
        let line = |item: u64, seconds: u64| {
            format!(
                "{{\"wall_ns\":0,\"answered\":\"miss\",\"source\":\"f\",\"kind\":\"csv\",\"item\":\"{item}\",\"asked\":\"{item}\",\
                 \"size_bytes\":100,\"execute_ns\":{seconds}000000000,\"cache_ns\":0,\"reuse_scan_ns\":0,\"lookup_ns\":0}}\n"
            )
        };
        let text: String = (0..10).map(|_| line(1, 50) + &line(2, 1)).collect();
        trace::parse(&format!("{}\n{text}", trace::header())).unwrap()
    }

    #[test]
    fn the_table_has_each_policy_under_each_memory() {
        let table = table(&requests(), &["lru", "recache", "local-ratio"], &["50%", "100%"], Newcomers::Weighed);
        let text = table.unwrap();
        let row = |name: &str| -> Vec<String> {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().skip(1).map(str::to_string).collect()
        };
        assert!(
            text.starts_with("20 requests for 2 items of 200 B together; when recorded: 510.000 s, 0 hits"),
            "{text}"
        );
        // In place for one only, LRU always holds the other; ReCache keeps the dear one.
        assert_eq!(row("lru"), ["510.000", "(0)", "51.000", "(18)"]);
        assert_eq!(row("recache"), ["60.000", "(9)", "51.000", "(18)"]);
        assert_eq!(row("local-ratio"), ["60.000", "(9)", "51.000", "(18)"]);
        assert!(!text.contains("proteus"), "{text}");
        assert_eq!(text.lines().count(), 2 + 1 + 3);
    }

    #[test]
    fn all_names_every_policy_and_unknown_names_are_refused() {
        let all = table(&requests(), &["all"], &SHARES, Newcomers::Taken).unwrap();
        assert_eq!(all.lines().count(), 2 + 1 + PolicyName::ALL.len() + offline::ALL.len());
        let message = table(&requests(), &["mru"], &SHARES, Newcomers::Taken).unwrap_err();
        assert!(message.contains("'mru'") && message.contains("monetdb, farthest-first"), "{message}");
        assert!(table(&requests(), &["all"], &["much"], Newcomers::Taken).is_err());
    }
}
