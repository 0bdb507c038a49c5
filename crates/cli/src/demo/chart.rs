//! The picture of the demo: time per question, three bars each, as one SVG without anything outside of it.
//!
//! Pure: the same figures give the same bytes. Colours are set by a style sheet inside, with a second set for readers
//! who prefer dark; the axis is logarithmic, and says so.

use std::fmt::Write as _;

use crate::figures::duration_text;

/// The bars of one question.
pub(super) struct Group<'a> {
    pub(super) label: &'a str,
    pub(super) off_ns: u64,
    pub(super) first_ns: u64,
    pub(super) again_ns: u64,
}

const WIDTH: f64 = 960.0;
/// Room for the questions' names.
const LEFT: f64 = 250.0;
/// Room for the times beside the bars.
const RIGHT: f64 = 90.0;
const TOP: f64 = 112.0;
const BAR_HEIGHT: f64 = 12.0;
const GROUP_HEIGHT: f64 = 3.0 * BAR_HEIGHT + 18.0;
const BELOW: f64 = 64.0;

const STYLE: &str = "
  .page { fill: #ffffff; } text { font-family: system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #24292f; }
  .title { font-size: 20px; font-weight: 600; } .remark { font-size: 13px; fill: #57606a; }
  .label { font-size: 13px; } .value, .tick { font-size: 11px; fill: #57606a; }
  .grid { stroke: #d0d7de; stroke-width: 1; } .axis { stroke: #57606a; stroke-width: 1; }
  .off { fill: #8c959f; } .first { fill: #0969da; } .again { fill: #1a7f37; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } text { fill: #e6edf3; } .remark, .value, .tick { fill: #9198a1; }
    .grid { stroke: #30363d; } .axis { stroke: #9198a1; }
    .off { fill: #6e7681; } .first { fill: #4493f8; } .again { fill: #3fb950; }
  }";

/// A logarithmic axis from one round time to another.
struct Axis {
    low_ns: f64,
    high_ns: f64,
}

/// More marks than this would run into each other.
const MOST_TICKS: usize = 14;

impl Axis {
    fn over(groups: &[Group<'_>]) -> Self {
        let times = || groups.iter().flat_map(|group| [group.off_ns, group.first_ns, group.again_ns]);
        let least_ns = times().min().unwrap_or(1_000_000).max(1) as f64;
        let most_ns = times().max().unwrap_or(1_000_000).max(1) as f64;
        // The shortest bar is to be seen, so the axis starts below it.
        let low_ns = round_times().take_while(|&ns| ns <= least_ns * 0.9).last().unwrap_or(0.5);
        let high_ns = round_times().find(|&ns| ns >= most_ns && ns > low_ns).unwrap_or(most_ns);
        Self { low_ns, high_ns }
    }

    /// The round times to mark: all, or the powers of ten where all would be too many.
    fn ticks(&self) -> Vec<f64> {
        let all: Vec<f64> = round_times().filter(|ns| (self.low_ns..=self.high_ns).contains(ns)).collect();
        if all.len() <= MOST_TICKS { all } else { all.into_iter().filter(|ns| ns.log10().fract() == 0.0).collect() }
    }

    /// Pixels from the left edge of the picture.
    fn x(&self, ns: f64) -> f64 {
        let share = (ns.max(self.low_ns) / self.low_ns).log10() / (self.high_ns / self.low_ns).log10();
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }
}

/// 1, 2, 5, 10, 20, 50 nanoseconds and so on, up to more than a century.
fn round_times() -> impl Iterator<Item = f64> {
    (0..19).flat_map(|exponent| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(exponent)))
}

/// Draws the picture. `remark` stands below the title.
pub(super) fn svg(remark: &str, groups: &[Group<'_>]) -> String {
    let axis = Axis::over(groups);
    let bottom = TOP + groups.len() as f64 * GROUP_HEIGHT;
    let height = bottom + BELOW;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-labelledby=\"title remark\">\n<style>{STYLE}\n</style>\n\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n\
         <text id=\"title\" class=\"title\" x=\"24\" y=\"36\">Thermocline demo: time per question</text>\n\
         <text id=\"remark\" class=\"remark\" x=\"24\" y=\"58\">{}</text>",
        escaped(remark)
    );
    for (index, (class, text)) in
        [("off", "cache off"), ("first", "cache on, first asked"), ("again", "cache on, asked again")]
            .iter()
            .enumerate()
    {
        let x = 24.0 + 190.0 * index as f64;
        let _ = writeln!(
            out,
            "<rect class=\"{class}\" x=\"{x}\" y=\"74\" width=\"12\" height=\"12\" rx=\"2\"/>\
             <text class=\"label\" x=\"{}\" y=\"85\">{text}</text>",
            x + 18.0
        );
    }
    draw_axis(&axis, bottom, &mut out);
    for (index, group) in groups.iter().enumerate() {
        draw_group(group, TOP + index as f64 * GROUP_HEIGHT, &axis, &mut out);
    }
    let _ = writeln!(
        out,
        "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{TOP}\" x2=\"{LEFT}\" y2=\"{bottom}\"/>\n\
         <text class=\"remark\" x=\"24\" y=\"{:.1}\">question</text>\n\
         <text class=\"remark\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">\
         wall time from SQL to the last row, logarithmic scale (shorter is better)</text>\n</svg>",
        bottom + 20.0,
        (LEFT + WIDTH - RIGHT) / 2.0,
        bottom + 46.0
    );
    out
}

fn draw_axis(axis: &Axis, bottom: f64, out: &mut String) {
    for ns in axis.ticks() {
        let x = axis.x(ns);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 20.0,
            tick_text(ns)
        );
    }
}

fn draw_group(group: &Group<'_>, top: f64, axis: &Axis, out: &mut String) {
    let first_bar = top + (GROUP_HEIGHT - 3.0 * BAR_HEIGHT) / 2.0;
    let _ = writeln!(
        out,
        "<text class=\"label\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        LEFT - 12.0,
        first_bar + 1.5 * BAR_HEIGHT + 4.0,
        escaped(group.label)
    );
    let bars = [("off", group.off_ns), ("first", group.first_ns), ("again", group.again_ns)];
    for (index, (class, ns)) in bars.into_iter().enumerate() {
        let y = first_bar + index as f64 * BAR_HEIGHT;
        let end = axis.x(ns as f64);
        let _ = writeln!(
            out,
            "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\"/>\
             <text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            (end - LEFT).max(1.0),
            BAR_HEIGHT - 1.0,
            end + 6.0,
            y + BAR_HEIGHT - 3.0,
            duration_text(ns)
        );
    }
}

/// `20 ms`: a round time without digits after the point.
fn tick_text(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.0} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.0} ms", ns / 1e6),
        ns => format!("{:.0} s", ns / 1e9),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups() -> Vec<Group<'static>> {
        vec![
            Group { label: "a < b & \"c\"", off_ns: 312_000_000, first_ns: 330_000_000, again_ns: 4_100_000 },
            Group { label: "narrower", off_ns: 300_000_000, first_ns: 3_900_000, again_ns: 3_800_000 },
        ]
    }

    /// Every opening tag is closed in order, and attributes are quoted: what a strict reader asks.
    fn assert_well_formed(text: &str) {
        let mut open: Vec<&str> = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find('<') {
            assert!(!rest[..start].contains('>'), "a stray > before {}", &rest[start..]);
            let end = rest[start..].find('>').map(|end| start + end).expect("a tag ends");
            let tag = &rest[start + 1..end];
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap_or(""));
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn the_picture_is_well_formed_and_complete() {
        let picture = svg("scale 0.1 & more", &groups());
        assert_well_formed(&picture);
        for expected in [
            "a &lt; b &amp; &quot;c&quot;",
            "scale 0.1 &amp; more",
            "312 ms",
            "4.10 ms",
            ">2 ms<",
            ">500 ms<",
            "logarithmic",
        ] {
            assert!(picture.contains(expected), "{expected} in\n{picture}");
        }
        assert_eq!(picture.matches("<rect class=\"first\"").count(), 1 + 2, "legend and one bar a question");
    }

    #[test]
    fn the_same_figures_give_the_same_bytes() {
        assert_eq!(svg("x", &groups()), svg("x", &groups()));
    }

    #[test]
    fn longer_times_have_longer_bars_a_decade_being_as_wide_as_the_next() {
        let axis = Axis::over(&groups());
        assert_eq!((axis.low_ns, axis.high_ns), (2e6, 5e8));
        assert_eq!(axis.ticks().len(), 8, "2, 5, 10 … 500 ms");
        let decade = axis.x(5e7) - axis.x(5e6);
        assert!((axis.x(5e8) - axis.x(5e7) - decade).abs() < 1e-9);
        assert!(axis.x(330e6) > axis.x(312e6));
        assert!(axis.x(1e12) <= WIDTH - RIGHT, "nothing leaves the picture");
    }

    #[test]
    fn times_of_any_size_can_be_drawn() {
        let extreme = [
            Group { label: "x", off_ns: u64::MAX, first_ns: 0, again_ns: 1 },
            Group { label: "y", off_ns: 5, first_ns: 5, again_ns: 5 },
        ];
        let picture = svg("", &extreme);
        assert_well_formed(&picture);
        assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
        assert_well_formed(&svg("", &[]));
    }
}
