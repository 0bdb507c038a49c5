//! What the demo prints: one block a question, and a summary.
//!
//! Pure: figures in, text out. Losses are printed like wins.

use super::measure::{Asking, Decision, Measured, Origin};
use super::questions::Question;
use crate::figures::{bytes_text, count_text, duration_text, ratio_text};
use crate::terminal::Paint;

/// Cells of the longest bar.
const BAR_CELLS: u64 = 36;

/// The block of one question.
pub(super) fn block(number: usize, question: &Question, measured: &Measured, paint: Paint) -> String {
    let mut lines = vec![
        format!(
            "{} {}  {}",
            paint.bold(&format!("{number:>2}")),
            paint.bold(question.title),
            paint.dim(question.relation)
        ),
        String::new(),
    ];
    lines.extend(question.sql.lines().map(|line| format!("    {}", paint.cyan(line))));
    lines.push(String::new());
    let longest_ns = measured.off_ns.max(measured.first.elapsed_ns).max(measured.again.elapsed_ns);
    let bar = |name: &str, elapsed_ns: u64, is_memory: Option<bool>| {
        let bar = bar_text(elapsed_ns, longest_ns);
        let bar = match is_memory {
            None => paint.dim(&bar),
            Some(true) => paint.green(&bar),
            Some(false) => paint.yellow(&bar),
        };
        let speed_up = match is_memory {
            None => String::new(),
            Some(_) => format!("  {:>8}", ratio_text(measured.off_ns, elapsed_ns)),
        };
        format!("    {name:<12}{bar} {:>8}{speed_up}", duration_text(elapsed_ns))
    };
    lines.push(bar("cache off", measured.off_ns, None));
    lines.push(bar("first asked", measured.first.elapsed_ns, Some(is_from_memory(&measured.first))));
    lines.push(bar("asked again", measured.again.elapsed_ns, Some(is_from_memory(&measured.again))));
    lines.push(String::new());
    lines.push(format!("    {:<12}{}", "answer", measured.answer));
    lines.extend(reasons("first asked", &measured.first, paint));
    let is_news = measured.again.origins != measured.first.origins
        || measured.again.decisions.iter().any(|decision| decision_text(decision).is_some());
    if is_news {
        lines.extend(reasons("asked again", &measured.again, paint));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Whether all rows came from memory, as far as is known: without origins nothing is.
fn is_from_memory(asking: &Asking) -> bool {
    !asking.origins.is_empty() && asking.origins.iter().all(Origin::is_memory)
}

/// A bar of the share that `elapsed_ns` has of `longest_ns`, to an eighth of a cell, padded to full length.
fn bar_text(elapsed_ns: u64, longest_ns: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (u128::from(elapsed_ns) * u128::from(BAR_CELLS * 8) / u128::from(longest_ns.max(1))) as u64;
    // Something that took time is never shown as nothing.
    let eighths = eighths.clamp(1, BAR_CELLS * 8);
    let (full, part) = ((eighths / 8) as usize, (eighths % 8) as usize);
    let used = full + usize::from(part > 0);
    format!("{}{}{}", "█".repeat(full), EIGHTHS[part], " ".repeat(BAR_CELLS as usize - used))
}

/// Where the rows came from, and what the cache decided.
fn reasons(name: &str, asking: &Asking, paint: Paint) -> Vec<String> {
    let mut told: Vec<String> = asking.origins.iter().flat_map(|origin| origin_texts(origin, paint)).collect();
    told.extend(asking.decisions.iter().filter_map(decision_text).map(|text| paint.dim(&text)));
    told.iter()
        .enumerate()
        .map(|(index, text)| format!("    {:<12}{text}", if index == 0 { name } else { "" }))
        .collect()
}

fn origin_texts(origin: &Origin, paint: Paint) -> Vec<String> {
    let file = format!("{:<14}", origin.path);
    if !origin.is_memory() {
        let part = match origin.decision.as_str() {
            "extend" => "the new part parsed, the rest from memory",
            "top up" => "missing columns parsed, the rest from memory",
            "scan rest" => "a part of the range parsed, the rest from memory",
            _ => "parsed from the file",
        };
        return vec![format!("{file}{}", paint.yellow(part))];
    }
    let item = if origin.item.is_empty() { "a scan under way" } else { &origin.item };
    let mut texts = vec![format!("{file}{}, {}", paint.green("from memory"), in_words(item))];
    if !matches!(origin.residual.as_str(), "" | "TRUE") {
        texts.push(format!("{:14}of these the rows with {}", "", origin.residual));
    }
    texts
}

/// A predicate that every row meets is shown as `TRUE` by SQL, and read as `all rows` by people.
fn in_words(predicate: &str) -> String {
    match predicate.strip_suffix("TRUE") {
        Some(before) if before.is_empty() || before.ends_with(": ") => format!("{before}all rows"),
        _ => predicate.to_owned(),
    }
}

/// What changed in the cache. Hits and misses are not repeated: the origins tell them.
fn decision_text(decision: &Decision) -> Option<String> {
    let did = match decision.kind.as_str() {
        "admit" => "kept as",
        "refuse" => "not kept:",
        "evict" => "dropped",
        "extend" => "extended",
        "top_up" => "completed",
        "promote" => "read again, to keep its rows:",
        "lazy" => "noting positions alone:",
        "map_made" => "positional map made,",
        "invalidate" => "out of date, dropped",
        "abort" => "no longer kept:",
        _ => return None,
    };
    let item = if decision.item.is_empty() { String::new() } else { format!(" item {}", decision.item) };
    let predicate =
        if decision.predicate.is_empty() { String::new() } else { format!(": {}", in_words(&decision.predicate)) };
    let numbers = numbers_text(&decision.numbers, decision.kind == "admit");
    let numbers = if numbers.is_empty() { String::new() } else { format!("; {numbers}") };
    Some(format!("{:<14}{did}{item}{predicate} ({}{numbers})", decision.path, decision.reason))
}

/// The numbers that tell what an item is; those of its future reuse are in `thermocline.cache_items`.
const ITEM_NUMBERS: [&str; 4] = ["row_count", "position_count", "size_bytes", "execute_ns"];

/// `size_bytes=4300000 execute_ns=310000000` as `size 4.30 MB, execute 310 ms`.
fn numbers_text(numbers: &str, of_item: bool) -> String {
    let texts: Vec<String> = numbers
        .split_whitespace()
        .filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            if of_item && !ITEM_NUMBERS.contains(&name) {
                return None;
            }
            let figure: f64 = value.parse().ok()?;
            let text = if let Some(name) = name.strip_suffix("_bytes") {
                format!("{name} {}", bytes_text(figure as u64))
            } else if let Some(name) = name.strip_suffix("_ns") {
                format!("{name} {}", duration_text(figure as u64))
            } else if figure.fract() == 0.0 && (0.0..1e15).contains(&figure) {
                format!("{name} {}", count_text(figure as u64))
            } else {
                format!("{name} {figure:.3e}")
            };
            Some(text.replace('_', " "))
        })
        .collect();
    texts.join(", ")
}

/// What the cache holds at the end.
pub(super) struct Held {
    pub(super) budget_bytes: u64,
    pub(super) cache_bytes: u64,
    pub(super) private_bytes: u64,
    pub(super) items: Vec<HeldItem>,
}

/// One item of the cache.
pub(super) struct HeldItem {
    pub(super) id: String,
    pub(super) file: String,
    pub(super) predicate: String,
    /// The list whose elements are the rows; empty if the rows are the file's own.
    pub(super) unnest: String,
    pub(super) row_count: u64,
    pub(super) size_bytes: u64,
    pub(super) use_count: u64,
}

/// What it all came to.
pub(super) fn summary(questions: &[Question], measured: &[Measured], held: &Held, paint: Paint) -> String {
    let sum = |figure: fn(&Measured) -> u64| measured.iter().map(figure).sum::<u64>();
    let (off_ns, first_ns) = (sum(|one| one.off_ns), sum(|one| one.first.elapsed_ns));
    let again_ns = sum(|one| one.again.elapsed_ns);
    let mut lines = vec![paint.bold("What it came to"), String::new()];
    let without = format!("all {} questions, cache off", questions.len());
    lines.push(format!("    {without:<27}{:>10}", duration_text(off_ns)));
    lines.push(format!(
        "    {:<27}{:>10}  {:>8}",
        "the first time",
        duration_text(first_ns),
        ratio_text(off_ns, first_ns)
    ));
    lines.push(format!("    {:<27}{:>10}  {:>8}", "once more", duration_text(again_ns), ratio_text(off_ns, again_ns)));
    lines.push(String::new());
    lines.extend(wins_and_losses(questions, measured));
    lines.push(String::new());
    lines.extend(memory_lines(held, (2 * off_ns).saturating_sub(first_ns + again_ns), paint));
    lines.join("\n")
}

fn wins_and_losses(questions: &[Question], measured: &[Measured]) -> Vec<String> {
    let ratio = |one: &Measured| one.off_ns as f64 / one.first.elapsed_ns.max(1) as f64;
    let describe = |(question, one): (&Question, &Measured)| {
        format!("{}, {}", question.title, ratio_text(one.off_ns, one.first.elapsed_ns))
    };
    let pairs = || questions.iter().zip(measured);
    let mut lines = vec![format!(
        "    {} of {} questions, none asked before, were answered from memory the first time.",
        measured.iter().filter(|one| is_from_memory(&one.first)).count(),
        measured.len()
    )];
    if let Some(best) = pairs().max_by(|left, right| ratio(left.1).total_cmp(&ratio(right.1))) {
        lines.push(format!("    Largest gain: {}.", describe(best)));
    }
    match pairs().filter(|pair| ratio(pair.1) < 1.0).min_by(|left, right| ratio(left.1).total_cmp(&ratio(right.1))) {
        Some(worst) => lines.push(format!(
            "    Slower than without the cache: {} of {}. Largest loss: {}, {:.1} % longer.",
            measured.iter().filter(|one| ratio(one) < 1.0).count(),
            measured.len(),
            worst.0.title,
            100.0 * (1.0 / ratio(worst.1) - 1.0)
        )),
        None => lines.push("    None was slower than without the cache.".to_owned()),
    }
    lines.push(
        "    Every answer equals the one with the cache off. All files were in the operating system's page cache."
            .to_owned(),
    );
    lines
}

fn memory_lines(held: &Held, saved_ns: u64, paint: Paint) -> Vec<String> {
    let mut lines = vec![format!(
        "    memory budget {} · held by the cache {} in {} items · private memory of this process {}",
        bytes_text(held.budget_bytes),
        bytes_text(held.cache_bytes),
        held.items.len(),
        bytes_text(held.private_bytes)
    )];
    if held.cache_bytes > 0 && saved_ns > 0 {
        let per_megabyte_ns = (saved_ns as f64 * 1e6 / held.cache_bytes as f64) as u64;
        lines.push(format!(
            "    which saved {} of waiting: {} for each MB held",
            duration_text(saved_ns),
            duration_text(per_megabyte_ns)
        ));
    }
    if held.items.is_empty() {
        return lines;
    }
    lines.push(String::new());
    lines.push(
        paint.dim(&format!("    {:>4}  {:<14}{:>10}  {:>9}  {:>4}  rows with", "item", "file", "rows", "size", "used")),
    );
    for item in &held.items {
        lines.push(format!(
            "    {:>4}  {:<14}{:>10}  {:>9}  {:>4}  {}",
            item.id,
            item.file,
            count_text(item.row_count),
            bytes_text(item.size_bytes),
            item.use_count,
            match item.unnest.as_str() {
                "" => in_words(&item.predicate),
                list => format!("{}, {list} unnested", in_words(&item.predicate)),
            }
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn asking(elapsed_ns: u64, decision: &str) -> Asking {
        Asking {
            elapsed_ns,
            origins: vec![Origin {
                path: "a.csv".into(),
                decision: decision.into(),
                item: if decision == "hit" { "item 1: x >= 1".into() } else { String::new() },
                residual: if decision == "hit" { "x >= 5".into() } else { String::new() },
            }],
            decisions: vec![Decision {
                kind: "admit".into(),
                item: "1".into(),
                path: "a.csv".into(),
                predicate: "x >= 1".into(),
                reason: "worth its room".into(),
                numbers: "size_bytes=4300000 execute_ns=310000000 benefit=0.00012".into(),
            }],
        }
    }

    fn measured(off_ns: u64, first_ns: u64, decision: &str) -> Measured {
        Measured {
            off_ns,
            first: asking(first_ns, decision),
            again: asking(1_000_000, "hit"),
            answer: "1 row: 1".into(),
        }
    }

    const QUESTION: Question = Question { title: "Title", relation: "relation", sql: "SELECT 1\nFROM x" };

    #[test]
    fn a_block_names_the_item_the_residual_filter_and_the_numbers_of_the_decision() {
        let text = block(3, &QUESTION, &measured(100_000_000, 5_000_000, "hit"), Paint::PLAIN);
        for expected in [
            " 3 Title",
            "    SELECT 1\n    FROM x",
            "20 ×",
            "a.csv         from memory, item 1: x >= 1\n",
            "of these the rows with x >= 5\n",
            "kept as item 1: x >= 1 (worth its room; size 4.30 MB, execute 310 ms)",
        ] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
    }

    #[test]
    fn a_loss_is_told_as_a_loss() {
        let held = Held { budget_bytes: 1_000_000_000, cache_bytes: 0, private_bytes: 50_000_000, items: Vec::new() };
        let lost = [measured(100_000_000, 110_000_000, "miss")];
        let text = summary(std::slice::from_ref(&QUESTION), &lost, &held, Paint::PLAIN);
        assert!(text.contains("Slower than without the cache: 1 of 1. Largest loss: Title, 10.0 % longer."), "{text}");
        assert!(text.contains("0 of 1 questions"), "{text}");
        let won = [measured(100_000_000, 1_000_000, "hit")];
        let text = summary(std::slice::from_ref(&QUESTION), &won, &held, Paint::PLAIN);
        assert!(text.contains("None was slower"), "{text}");
    }

    #[test]
    fn numbers_keep_their_names_and_get_their_units() {
        let text = numbers_text("freed_bytes=4300000 benefit=0.00012 item_count=12345", false);
        assert_eq!(text, "freed 4.30 MB, benefit 1.200e-4, item count 12,345");
    }

    #[test]
    fn a_predicate_that_every_row_meets_is_told_in_words() {
        assert_eq!(in_words("item 5: TRUE"), "item 5: all rows");
        assert_eq!(in_words("TRUE"), "all rows");
        assert_eq!(in_words("item 5: x = TRUE"), "item 5: x = TRUE");
    }

    #[test]
    fn bars_are_as_long_as_their_share_and_never_empty() {
        let cells = |text: String| text.chars().count() as u64;
        assert_eq!(cells(bar_text(10, 10)), BAR_CELLS);
        assert_eq!(bar_text(10, 10).trim_end().chars().count() as u64, BAR_CELLS);
        assert_eq!(bar_text(5, 10).trim_end().chars().count() as u64, BAR_CELLS / 2);
        assert_eq!(bar_text(0, 10).trim_end(), "▏");
        assert_eq!(cells(bar_text(1, 1_000_000)), BAR_CELLS);
        assert_eq!(cells(bar_text(3, 0)), BAR_CELLS);
    }

    #[test]
    fn the_summary_lists_what_memory_bought() {
        let held = Held {
            budget_bytes: 12_000_000_000,
            cache_bytes: 40_000_000,
            private_bytes: 90_000_000,
            items: vec![HeldItem {
                id: "1".into(),
                file: "a.csv".into(),
                predicate: "TRUE".into(),
                unnest: "items".into(),
                row_count: 12_345,
                size_bytes: 40_000_000,
                use_count: 3,
            }],
        };
        let text =
            summary(std::slice::from_ref(&QUESTION), &[measured(100_000_000, 60_000_000, "miss")], &held, Paint::PLAIN);
        // Twice 100 ms without, 61 ms with.
        assert!(text.contains("saved 139 ms of waiting: 3.48 ms for each MB held"), "{text}");
        assert!(text.contains("12,345") && text.contains("all rows, items unnested"), "{text}");
    }
}
