//! `thermocline hardware`: what this machine is and, unless told otherwise, what its memory gives.

use std::fmt::Write as _;
use std::sync::Arc;

use thermocline_budget::format_bytes;
use thermocline_hardware::{CacheLevel, Calibration, Clock, Machine, calibrate};

use crate::figures::bytes_text;
use crate::terminal::Paint;

/// The report as text, one fact a line.
pub(crate) fn report(clock: &Arc<dyn Clock>, measures: bool, paint: Paint) -> String {
    let machine = Machine::detect();
    let calibration = measures.then(|| calibrate(&machine, clock.as_ref()));
    lines(&machine, calibration.as_ref(), paint)
}

fn lines(machine: &Machine, calibration: Option<&Calibration>, paint: Paint) -> String {
    let mut facts: Vec<(String, String)> = vec![
        ("processor".to_owned(), machine.cpu_model.clone()),
        ("logical cores".to_owned(), machine.logical_cores.to_string()),
    ];
    if !machine.simd.is_empty() {
        facts.push(("vector instructions".to_owned(), machine.simd.join(" ")));
    }
    for cache in &machine.caches {
        facts.push((format!("L{} cache, {}", cache.level, cache.kind.as_str()), cache_text(cache)));
    }
    facts.push(("RAM".to_owned(), format_bytes(machine.ram_bytes)));
    facts.push((
        "control group limit".to_owned(),
        machine.control_group_limit_bytes.map_or_else(|| "none".to_owned(), format_bytes),
    ));
    facts.push((
        "default memory budget".to_owned(),
        format!("{}: half of the smaller of the two", format_bytes(machine.default_memory_budget_bytes())),
    ));
    facts.push(("memory page".to_owned(), format_bytes(machine.page_bytes)));
    if let Some(calibration) = calibration {
        let speed = |bytes_per_s: f64| format!("{}/s, one core", bytes_text(bytes_per_s as u64));
        facts.push(("memory read".to_owned(), speed(calibration.memory_read_bytes_per_s)));
        facts.push(("memory copy".to_owned(), speed(calibration.memory_copy_bytes_per_s)));
        facts.push(("memory latency".to_owned(), format!("{:.0} ns", calibration.memory_latency_ns)));
    }
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in facts {
        let _ = writeln!(text, "{}  {value}", paint.bold(&format!("{name:width$}")));
    }
    text
}

fn cache_text(cache: &CacheLevel) -> String {
    let shared = match cache.shared_by_cpus {
        1 => "one core's own".to_owned(),
        count => format!("shared by {count} logical cores"),
    };
    format!("{}, lines of {} B, {shared}", format_bytes(cache.size_bytes), cache.line_bytes)
}

#[cfg(test)]
mod tests {
    use thermocline_hardware::CacheKind;

    use super::*;

    fn machine() -> Machine {
        Machine {
            cpu_model: "Test 9000".to_owned(),
            logical_cores: 4,
            simd: vec!["avx2"],
            caches: vec![CacheLevel {
                level: 1,
                kind: CacheKind::Data,
                size_bytes: 48 << 10,
                line_bytes: 64,
                shared_by_cpus: 2,
            }],
            ram_bytes: 24 << 30,
            control_group_limit_bytes: None,
            page_bytes: 4096,
        }
    }

    #[test]
    fn every_figure_has_its_unit() {
        let calibration =
            Calibration { memory_read_bytes_per_s: 17.1e9, memory_copy_bytes_per_s: 8e9, memory_latency_ns: 98.4 };
        let text = lines(&machine(), Some(&calibration), Paint::PLAIN);
        for expected in
            ["48 KiB, lines of 64 B, shared by 2 logical cores", "24 GiB", "12 GiB", "17.1 GB/s", "8.00 GB/s", "98 ns"]
        {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
    }

    #[test]
    fn without_measuring_no_speed_is_claimed() {
        assert!(!lines(&machine(), None, Paint::PLAIN).contains("/s"));
    }
}
