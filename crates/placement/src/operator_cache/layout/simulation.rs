//! The workloads of ReCache's Figure 9, played through the rules against a truth that none of them knows.
//!
//! The truth is that of the paper, not that of our model: every query goes through all rows that its layout has for it;
//! a row costs a visit, a value a load, and a striped value twice its load on top for its levels (§4.1: about 2.8 times
//! as slow); a flat item has four rows for each record whatever is asked; each query is off by up to a tenth, at
//! random. Converting costs reading and writing every value. The model's unit costs are told nothing of this.
//!
//! What comes out is how much closer the rule's total, conversions included, is to the optimum than a fixed layout's:
//! `(fixed − rule) / (fixed − optimum)`, where the optimum is the sum of each query's cheapest layout and converts for
//! nothing. Means of twenty seeds in per cent, from a striped item on; negative is worse than fixed:
//!
//! ```text
//!                            as printed     measured, two   measured, four   with mirrors     the paper
//!                          striped  flat     striped  flat    striped  flat   striped  flat   striped  flat
//! converting costs one scan
//!   a  all, then records      70     -6        82     36        84     64       88     73       53     43
//!   b  in turns of 100        70     -6        70     -6        78     50       88     73       68     57
//!   c  at random, by half     70     -6        62    -33        76     44       88     72       -      -
//! converting costs the whole item
//!   a  all, then records      65    -23        70     -3        73     39       81     56
//!   b  in turns of 100        65    -23        34   -130        60      9       81     56
//!   c  at random, by half     65    -23        57    -50        65     21       80     55
//! ```
//!
//! What it shows. As printed the rule flattens the item after a few queries and never stripes it again: the queries on
//! elements leave flat a credit that three hundred queries on records don't use up, which the paper's Figure 9a doesn't
//! show. Ours follows the workload, and pays for that where turning is no gain: a hundred queries on records gain about
//! what it costs to stripe the item and to flatten it again. Its first conversion waits for as much regret as it costs,
//! which is what it loses to a flat item from the beginning where flat is best throughout. Free to choose it goes to
//! nested, and for queries on elements to flat, which it leaves again. Before the first conversion it takes conversions
//! for as dear as they are on real items, which is more than in these truths. Where the form that an item had is kept as
//! its mirror, it is converted twice, to nested and to flat, and then each query finds its form: that loses but what the
//! conversions cost, and what the first queries did, in whatever order queries come.
//!
//! Shares of the measured rule's predictions within 10 % and 30 % (Figure 7; the paper has 90 % and 98 %), against this
//! truth. They are no measure of the model, which was made for layouts as they are and denies what the truth asserts,
//! that every value of a column costs as much whether its row was selected or not; but of how well the rule decides all
//! the same. How near predictions come on real items is for `benches/cost_model.rs` of the cache's crate to say.
//!
//! ```text
//!        for the other layout    for the present one
//!   a         28    71                34    73
//!   b         29    69                32    75
//!   c         28    64                30    76
//! ```

use thermocline_seeded::Random;

use super::as_printed::LayoutWindow;
use super::measured::{MeasuredWindow, UnitCosts};
use super::planned_query::PlannedQuery;
use super::prediction_error::ErrorSummary;
use super::sample_query::{SampleQuery, evenly};
use super::{Forms, ItemShape, Layout, LayoutObservation, Spare};

/// TPC-H's orders with their lineitems.
const ORDERS: ItemShape = ItemShape {
    record_count: 100_000,
    flat_row_count: 400_000,
    record_columns: 9,
    element_columns: 16,
    size_bytes: [60 << 20, 80 << 20, 65 << 20, 80 << 20],
};

/// Room for a flat or a striped item; the other two are declared too large where the paper's two compete alone.
const TWO_LAYOUTS: ItemShape = ItemShape { size_bytes: [u64::MAX, 80 << 20, 65 << 20, u64::MAX], ..ORDERS };

const SPARE: Spare = Spare { bytes: 1 << 30, processors: 0.0 };

/// Nanoseconds that the truth takes for a row, and for a value.
const VISIT_NS: f64 = 1.0;
const LOAD_NS: f64 = 1.0;

/// What a query costs in a layout: loading and computing.
fn truth_ns(layout: Layout, query: &LayoutObservation) -> (f64, f64) {
    let rows = query.rows_read(&ORDERS) as f64;
    let flat_rows = ORDERS.flat_row_count as f64;
    let (records, elements) = (f64::from(query.record_columns.read), f64::from(query.element_columns.read));
    let columns = records + elements;
    match layout {
        Layout::Flat => (flat_rows * (VISIT_NS + columns * LOAD_NS), 0.0),
        Layout::Striped => (rows * columns * LOAD_NS, rows * (VISIT_NS + columns * 2.0 * LOAD_NS)),
        Layout::Nested => {
            let gathers = if query.reads_elements { 2.0 } else { 1.0 };
            (rows * (VISIT_NS + (elements + records * gathers) * LOAD_NS), 0.0)
        }
        Layout::RowWise => (flat_rows * (VISIT_NS + 3.0 * LOAD_NS + columns * LOAD_NS), 0.0),
    }
}

/// What a conversion is in truth.
#[derive(Clone, Copy, Debug)]
enum Conversion {
    /// One scan of all rows for as many columns as the greatest query had: the paper's equation 3.
    OneScan,
    /// Every column read and every value written.
    WholeItem,
}

impl Conversion {
    fn cost_ns(self, from: Layout) -> f64 {
        let (records, elements) = match self {
            Self::OneScan => (0, 5),
            Self::WholeItem => (ORDERS.record_columns, ORDERS.element_columns),
        };
        let (data_ns, compute_ns) = truth_ns(from, &query(true, records, elements, 1.0));
        let written_ns = match self {
            Self::OneScan => 0.0,
            Self::WholeItem => ORDERS.flat_row_count as f64 * f64::from(records + elements) * LOAD_NS,
        };
        data_ns + compute_ns + written_ns
    }
}

fn query(reads_elements: bool, record_columns: u32, element_columns: u32, share: f64) -> LayoutObservation {
    evenly(&ORDERS, SampleQuery { reads_elements, record_columns, element_columns, share })
}

/// A query for one to five attributes, of all or of those that aren't nested.
fn random_query(random: &mut Random, of_all: bool) -> LayoutObservation {
    let (mut records, mut elements) = (0, 0);
    for _ in 0..=random.below_u64(5) {
        let attribute = random.below_u64(if of_all { 25 } else { 9 });
        *(if attribute < 9 { &mut records } else { &mut elements }) += 1;
    }
    query(elements > 0, records, elements, random.unit())
}

#[derive(Clone, Copy, Debug)]
enum Workload {
    AllThenRecords,
    TurnsOfHundred,
    AtRandom,
}

impl Workload {
    fn queries(self, random: &mut Random) -> Vec<LayoutObservation> {
        (0..600)
            .map(|number| {
                let of_all = match self {
                    Self::AllThenRecords => number < 300,
                    Self::TurnsOfHundred => number / 100 % 2 == 0,
                    Self::AtRandom => random.below_u64(2) == 0,
                };
                random_query(random, of_all)
            })
            .collect()
    }
}

/// A rule that is played: where it has a query read, and what it decides after it has seen it.
trait Rule {
    fn form(&self, own: Layout, _: &LayoutObservation) -> Layout {
        own
    }

    fn asked(&mut self, own: Layout, observation: &LayoutObservation) -> Option<Layout>;
    fn converted(&mut self, from: Layout, to: Layout, conversion_ns: f64);
}

impl Rule for LayoutWindow {
    fn asked(&mut self, _: Layout, observation: &LayoutObservation) -> Option<Layout> {
        self.observe(&ORDERS, observation);
        self.decide(&ORDERS).map(|switch| switch.to)
    }

    fn converted(&mut self, _: Layout, _: Layout, _: f64) {
        self.switched();
    }
}

struct Measured {
    window: MeasuredWindow,
    shape: ItemShape,
    keeps_mirrors: bool,
    mirror: Option<Layout>,
}

impl Measured {
    fn new(shape: ItemShape, keeps_mirrors: bool) -> Self {
        Self { window: MeasuredWindow::default(), shape, keeps_mirrors, mirror: None }
    }
}

impl Rule for Measured {
    fn form(&self, own: Layout, query: &LayoutObservation) -> Layout {
        let &LayoutObservation { reads_elements, record_columns, element_columns, as_kept, .. } = query;
        let planned = PlannedQuery { reads_elements, record_columns, element_columns, as_kept };
        let forms = Forms { own, mirror: self.mirror };
        self.window.choose(&UnitCosts::default(), &self.shape, forms, &planned, &[])
    }

    fn asked(&mut self, own: Layout, observation: &LayoutObservation) -> Option<Layout> {
        let forms = Forms { own, mirror: self.mirror };
        self.window.observe(&UnitCosts::default(), &self.shape, (forms, self.keeps_mirrors), observation, &[]);
        self.window.decide(&UnitCosts::default(), &self.shape, SPARE).map(|switch| switch.to)
    }

    fn converted(&mut self, from: Layout, to: Layout, conversion_ns: f64) {
        self.window.switched(&UnitCosts::default(), &ORDERS, to, conversion_ns as u64);
        self.mirror = Some(from).filter(|_| self.keeps_mirrors);
    }
}

/// Total time of a workload and the number of conversions, from a striped item on.
fn play(rule: &mut dyn Rule, queries: &[LayoutObservation], conversion: Conversion, noise: &mut Random) -> (f64, u32) {
    let (mut layout, mut total_ns, mut conversions) = (Layout::Striped, 0.0, 0);
    for query in queries {
        let form = rule.form(layout, query);
        let (data_ns, compute_ns) = truth_ns(form, query);
        let off = 0.9 + 0.2 * noise.unit();
        total_ns += (data_ns + compute_ns) * off;
        let (data_ns, compute_ns) = ((data_ns * off) as u64, (compute_ns * off) as u64);
        if let Some(to) = rule.asked(layout, &LayoutObservation { layout: form, data_ns, compute_ns, ..*query }) {
            let conversion_ns = conversion.cost_ns(layout);
            total_ns += conversion_ns;
            rule.converted(layout, to, conversion_ns);
            layout = to;
            conversions += 1;
        }
    }
    (total_ns, conversions)
}

fn fixed_ns(layout: Layout, queries: &[LayoutObservation]) -> f64 {
    queries.iter().map(|query| truth_ns(layout, query)).map(|(data_ns, compute_ns)| data_ns + compute_ns).sum()
}

fn optimum_ns(layouts: &[Layout], queries: &[LayoutObservation]) -> f64 {
    let cost = |layout: &Layout, query| truth_ns(*layout, query).0 + truth_ns(*layout, query).1;
    queries.iter().map(|query| layouts.iter().map(|layout| cost(layout, query)).fold(f64::INFINITY, f64::min)).sum()
}

const SEEDS: u64 = 20;

/// Closeness in per cent, to striped and to flat, and conversions; means over the seeds.
fn closeness(
    workload: Workload,
    conversion: Conversion,
    layouts: &[Layout],
    rule: impl Fn() -> Box<dyn Rule>,
) -> [f64; 3] {
    let mut sums = [0.0; 3];
    for seed in 0..SEEDS {
        let queries = workload.queries(&mut Random::new(seed));
        let (rule_ns, conversions) = play(&mut *rule(), &queries, conversion, &mut Random::new(seed + 1000));
        let optimum_ns = optimum_ns(layouts, &queries);
        for (sum, layout) in sums.iter_mut().zip([Layout::Striped, Layout::Flat]) {
            let fixed_ns = fixed_ns(layout, &queries);
            *sum += (fixed_ns - rule_ns) / (fixed_ns - optimum_ns) * 100.0 / SEEDS as f64;
        }
        sums[2] += f64::from(conversions) / SEEDS as f64;
    }
    sums
}

/// Predictions for each query's cost in the other of the paper's two layouts, and in its own before it was measured,
/// while the rule is played.
fn errors(workload: Workload) -> [ErrorSummary; 2] {
    let (mut others, mut own) = (ErrorSummary::default(), ErrorSummary::default());
    for seed in 0..SEEDS {
        let mut rule = Measured::new(TWO_LAYOUTS, false);
        let mut noise = Random::new(seed + 1000);
        let mut layout = Layout::Striped;
        for query in workload.queries(&mut Random::new(seed)) {
            let predicted =
                |layout, observed| rule.window.predict_ns(&UnitCosts::default(), &ORDERS, layout, &observed, &[]);
            let measured = |layout, off: f64| {
                let (data_ns, compute_ns) = truth_ns(layout, &query);
                let (data_ns, compute_ns) = ((data_ns * off) as u64, (compute_ns * off) as u64);
                LayoutObservation { layout, data_ns, compute_ns, ..query }
            };
            let observation = measured(layout, 0.9 + 0.2 * noise.unit());
            let other = if layout == Layout::Flat { Layout::Striped } else { Layout::Flat };
            own.add(predicted(layout, observation), observation.total_ns() as f64);
            others.add(predicted(other, observation), measured(other, 0.9 + 0.2 * noise.unit()).total_ns() as f64);
            if let Some(to) = rule.asked(layout, &observation) {
                rule.converted(layout, to, Conversion::WholeItem.cost_ns(layout));
                layout = to;
            }
        }
    }
    [others, own]
}

#[test]
fn the_rules_come_as_close_to_the_optimum_as_the_table_says() {
    let two = [Layout::Striped, Layout::Flat];
    let table = [
        (Workload::AllThenRecords, Conversion::OneScan, [70, -6], [82, 36], [84, 64], [88, 73]),
        (Workload::TurnsOfHundred, Conversion::OneScan, [70, -6], [70, -6], [78, 50], [88, 73]),
        (Workload::AtRandom, Conversion::OneScan, [70, -6], [62, -33], [76, 44], [88, 72]),
        (Workload::AllThenRecords, Conversion::WholeItem, [65, -23], [70, -3], [73, 39], [81, 56]),
        (Workload::TurnsOfHundred, Conversion::WholeItem, [65, -23], [34, -130], [60, 9], [81, 56]),
        (Workload::AtRandom, Conversion::WholeItem, [65, -23], [57, -50], [65, 21], [80, 55]),
    ];
    for (workload, conversion, printed, of_two, of_four, with_mirrors) in table {
        let measured = |shape, keeps_mirrors| move || Box::new(Measured::new(shape, keeps_mirrors)) as Box<dyn Rule>;
        let played = [
            (printed, closeness(workload, conversion, &two, || Box::new(LayoutWindow::default()))),
            (of_two, closeness(workload, conversion, &two, measured(TWO_LAYOUTS, false))),
            (of_four, closeness(workload, conversion, &Layout::ALL, measured(ORDERS, false))),
            (with_mirrors, closeness(workload, conversion, &Layout::ALL, measured(ORDERS, true))),
        ];
        for (stated, came_out) in played {
            for (stated, came_out) in stated.into_iter().zip(came_out) {
                // Rounded, and one more for another machine's logarithms.
                let is_as_stated = (f64::from(stated) - came_out).abs() < 1.5;
                assert!(is_as_stated, "{workload:?}, {conversion:?}: {stated} stated, {played:?}");
            }
        }
    }
}

#[test]
fn most_predictions_are_within_the_bounds_that_the_module_states() {
    let table = [
        (Workload::AllThenRecords, [(28, 71), (34, 73)]),
        (Workload::TurnsOfHundred, [(29, 69), (32, 75)]),
        (Workload::AtRandom, [(28, 64), (30, 76)]),
    ];
    for (workload, stated) in table {
        let shares = errors(workload).map(|errors| {
            assert_eq!(errors.prediction_count, 600 * SEEDS);
            (errors.share_within_10_percent() * 100.0, errors.share_within_30_percent() * 100.0)
        });
        for (stated, share) in stated.into_iter().zip(shares) {
            let is_as_stated =
                (f64::from(stated.0) - share.0).abs() < 1.5 && (f64::from(stated.1) - share.1).abs() < 1.5;
            assert!(is_as_stated, "{workload:?}: {stated:?} stated, {shares:?}");
        }
    }
}
