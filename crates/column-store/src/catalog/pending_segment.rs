//! A segment that is being written and belongs to no table yet.

use std::sync::Arc;

use super::shared::Shared;

/// The right to write one segment under a name that is given once. No other change touches its file. When it is
/// dropped, the file is removed, unless a change has been made that names it, or may have been made.
///
/// Keep it until the change is made: from the moment it is dropped no change may name it.
#[derive(Debug)]
pub struct PendingSegment {
    name: String,
    shared: Arc<Shared>,
}

impl PendingSegment {
    pub(super) fn new(name: String, shared: Arc<Shared>) -> Self {
        Self { name, shared }
    }

    /// The name for the file, which does not exist yet.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for PendingSegment {
    fn drop(&mut self) {
        self.shared.give_up(&self.name);
    }
}
