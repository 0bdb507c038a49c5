//! Nothing stays without a pin.

use super::*;

#[test]
fn every_page_without_a_pin_goes_at_once() {
    let mut os = Os::default();
    let page = |page| PageKey { source: 0, page };
    (0..10).for_each(|at| os.admit(page(at), ListKey(0), 5, 0));
    assert!(!os.keeps_unpinned());
    os.touch(page(0));
    let mut gone = Vec::new();
    while let Some(victim) = os.victim(None, &mut |page| page.page != 3) {
        os.remove(victim);
        gone.push(victim.page);
    }
    assert_eq!(gone, [1, 2, 4, 5, 6, 7, 8, 9, 0]);
    assert_eq!(os.held().iter().map(|held| held.kept_bytes).sum::<u64>(), 5);
}
