//! When each request's item is asked for again.

use std::collections::HashMap;

use crate::operator_cache::trace::Request;

/// For each request the number of the next one for the same item, if there is one.
pub(super) fn next_requests(requests: &[Request]) -> Vec<Option<usize>> {
    let mut upcoming: HashMap<u64, usize> = HashMap::new();
    let mut next = vec![None; requests.len()];
    for (index, request) in requests.iter().enumerate().rev() {
        next[index] = upcoming.insert(request.item, index);
    }
    next
}
