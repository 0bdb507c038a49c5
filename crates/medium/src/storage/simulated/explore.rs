//! Tries out everything that can go wrong with a piece of work: a crash or a fault at each of its operations in turn,
//! and a crash at each operation of the recovery after it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use super::disk::EXTREME_SEED_COUNT;
use super::{Fault, SimulatedMedium};
use crate::Medium;

/// How work or a check went. Errors of any kind; a text will do.
pub(super) type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// What to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exploration {
    /// What the disk writes at once: 512, or 8 for memory.
    pub torn_bytes: usize,
    /// How many images to look at after each crash. The first four are the extremes, see [`SimulatedMedium::crash`].
    pub seed_count: u64,
    /// The same for crashes in recovery.
    pub recovery_seed_count: u64,
    /// Where the other seeds begin, so that another run looks at other images.
    pub first_seed: u64,
}

impl Default for Exploration {
    /// Sectors, twelve images after each crash, and five after each crash in recovery.
    fn default() -> Self {
        Self { torn_bytes: 512, seed_count: 12, recovery_seed_count: 5, first_seed: EXTREME_SEED_COUNT }
    }
}

/// What was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Explored {
    /// Operations of the work when nothing goes wrong.
    pub operation_count: u64,
    /// Images after crashes in the work.
    pub crash_count: u64,
    /// Images after crashes in recovery.
    pub recovery_crash_count: u64,
    /// Operations and reads that were made to fail.
    pub fault_count: u64,
}

/// The first thing that was found to be wrong.
#[derive(Debug)]
pub struct Finding {
    /// What was done to the machine, with the operations and seeds that repeat it.
    pub story: String,
    /// What work or check said.
    pub complaint: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.story, self.complaint)
    }
}

impl Error for Finding {}

impl Exploration {
    /// Runs `work` on an empty medium: undisturbed, stopped at each of its operations, and with each of them failing.
    /// After each crash, and after each fault, `check` opens what is there.
    ///
    /// `work` notes in its record what it has issued and what was acknowledged to it; it makes the same calls each
    /// time, and ends with an error where the medium gives one. `check` recovers and compares with the record: what was
    /// acknowledged must be there, and nothing may be that was not issued. It is stopped at each of its own
    /// operations too, and then has to succeed on what that leaves.
    ///
    /// # Errors
    /// The first finding; or that work or check fail when nothing is done to them.
    pub fn run<R: Default>(
        &self,
        work: impl Fn(&Arc<dyn Medium>, &mut R) -> Outcome,
        check: impl Fn(&Arc<dyn Medium>, &R) -> Outcome,
    ) -> Result<Explored, Finding> {
        let mut explored = Explored::default();
        let whole = self.attempt(&work, |_| {});
        whole.outcome.map_err(|error| finding("work undisturbed", error))?;
        explored.operation_count = whole.medium.operation_count();
        let read_count = whole.medium.read_count();
        let operations = whole.medium.operations();
        recover(whole.medium.copy(), &check, &whole.record)
            .map_err(|error| finding("a check after work undisturbed", error))?;
        self.crash(&whole.medium, &whole.record, &check, "a crash after all work", &mut explored)?;

        for (index, operation) in (0..).zip(&operations) {
            let story = format!("a crash at operation {index} ({operation})");
            let stopped = self.attempt(&work, |medium| medium.stop_at(index));
            if !stopped.medium.is_stopped() {
                return Err(finding(&story, "the work did not come to this operation again".into()));
            }
            self.crash(&stopped.medium, &stopped.record, &check, &story, &mut explored)?;

            for fault in [Fault::InputOutput, Fault::NoSpace] {
                let story = format!("{fault:?} at operation {index} ({operation})");
                let failed = self.attempt(&work, |medium| medium.fail_at(index, fault));
                self.survive(&failed, &check, &story, &mut explored)?;
            }
        }
        for index in 0..read_count {
            let failed = self.attempt(&work, |medium| medium.fail_read_at(index));
            self.survive(&failed, &check, &format!("a fault at read {index}"), &mut explored)?;
        }
        Ok(explored)
    }

    fn attempt<R: Default>(
        &self,
        work: &impl Fn(&Arc<dyn Medium>, &mut R) -> Outcome,
        plan: impl FnOnce(&SimulatedMedium),
    ) -> Attempt<R> {
        let medium = Arc::new(SimulatedMedium::new(self.torn_bytes));
        plan(&medium);
        let mut record = R::default();
        let shared: Arc<dyn Medium> = Arc::<SimulatedMedium>::clone(&medium);
        let outcome = work(&shared, &mut record);
        Attempt { medium, record, outcome }
    }

    /// After a fault: the database is opened again on the machine that goes on, or after a crash.
    fn survive<R>(
        &self,
        failed: &Attempt<R>,
        check: &impl Fn(&Arc<dyn Medium>, &R) -> Outcome,
        story: &str,
        explored: &mut Explored,
    ) -> Result<(), Finding> {
        explored.fault_count += 1;
        self.crash(&failed.medium, &failed.record, check, &format!("{story}, then a crash"), explored)?;
        let reopened = recover(failed.medium.copy(), check, &failed.record).map_err(|error| finding(story, error))?;
        self.crash(&reopened, &failed.record, check, &format!("{story}, opened again, then a crash"), explored)
    }

    /// Looks at images after a crash now.
    fn crash<R>(
        &self,
        medium: &SimulatedMedium,
        record: &R,
        check: &impl Fn(&Arc<dyn Medium>, &R) -> Outcome,
        story: &str,
        explored: &mut Explored,
    ) -> Result<(), Finding> {
        for seed in self.seeds(self.seed_count) {
            explored.crash_count += 1;
            let story = format!("{story}, seed {seed}");
            let recovered = recover(medium.crash(seed), check, record).map_err(|error| finding(&story, error))?;
            let operations = recovered.operations();
            // One more than there are: a crash after recovery.
            for index in 0..=operations.len() {
                let again = Arc::new(medium.crash(seed));
                again.stop_at(index as u64);
                let shared: Arc<dyn Medium> = Arc::<SimulatedMedium>::clone(&again);
                // Stopped on its way, so that what it says is of no interest.
                let _ = check(&shared, record);
                for recovery_seed in self.seeds(self.recovery_seed_count) {
                    explored.recovery_crash_count += 1;
                    recover(again.crash(recovery_seed), check, record).map_err(|error| {
                        let operation = operations.get(index).map_or("its end", String::as_str);
                        let story = format!(
                            "{story}, then a crash at operation {index} of the recovery ({operation}), seed {recovery_seed}"
                        );
                        finding(&story, error)
                    })?;
                }
            }
        }
        Ok(())
    }

    /// The extremes, then others.
    fn seeds(&self, count: u64) -> impl Iterator<Item = u64> + use<> {
        let first_seed = self.first_seed.max(EXTREME_SEED_COUNT);
        (0..EXTREME_SEED_COUNT).chain(first_seed..).take(count as usize)
    }
}

/// Work that was tried.
struct Attempt<R> {
    medium: Arc<SimulatedMedium>,
    record: R,
    outcome: Outcome,
}

/// Checks what a machine finds, and returns it for its operations.
fn recover<R>(
    medium: SimulatedMedium,
    check: &impl Fn(&Arc<dyn Medium>, &R) -> Outcome,
    record: &R,
) -> Result<Arc<SimulatedMedium>, Box<dyn Error + Send + Sync>> {
    let medium = Arc::new(medium);
    let shared: Arc<dyn Medium> = Arc::<SimulatedMedium>::clone(&medium);
    check(&shared, record)?;
    Ok(medium)
}

fn finding(story: &str, complaint: Box<dyn Error + Send + Sync>) -> Finding {
    Finding { story: story.to_owned(), complaint: complaint.to_string() }
}
