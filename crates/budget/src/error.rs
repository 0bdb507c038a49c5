//! Why there is no memory, in words that name the setting to change.

use std::fmt;

use crate::format_bytes;

/// An error of the budget.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// A query needs more than the budget can give, all caches considered.
    #[error(
        "{account}: asked for {}, but {} of the memory budget of {} are free; {}; \
         raise it with SET thermocline.memory = '…' or run fewer queries at once",
        format_bytes(*.asked_bytes), format_bytes(*.free_bytes), format_bytes(*.limit_bytes), Holders(.holders)
    )]
    QueryMemory {
        /// Who asked.
        account: String,
        /// For how much.
        asked_bytes: u64,
        /// What was free after caches were asked.
        free_bytes: u64,
        /// The budget.
        limit_bytes: u64,
        /// Who holds what, most first.
        holders: Vec<Holder>,
    },
    /// A cache finds no free room; it makes room itself or goes without.
    #[error(
        "{account}: no room for {}: {} are free for caches (settings thermocline.memory, thermocline.cache_memory)",
        format_bytes(*.asked_bytes), format_bytes(*.free_bytes)
    )]
    CacheMemory {
        /// Who asked.
        account: String,
        /// For how much.
        asked_bytes: u64,
        /// What was free for it.
        free_bytes: u64,
    },
    /// A size that cannot be understood.
    #[error("'{text}' is not an amount of memory: {reason}")]
    InvalidSize {
        /// What was written.
        text: String,
        /// What is wrong and what is expected.
        reason: String,
    },
}

/// One line of who holds what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The account's name; accounts of one name are summed up.
    pub name: String,
    /// What it holds.
    pub held_bytes: u64,
}

struct Holders<'a>(&'a [Holder]);

impl fmt::Display for Holders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing is held");
        }
        f.write_str("held: ")?;
        for (index, holder) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{} by {}", format_bytes(holder.held_bytes), holder.name)?;
        }
        Ok(())
    }
}
