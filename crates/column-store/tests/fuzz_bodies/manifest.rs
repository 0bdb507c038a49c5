//! What the fuzzer of manifests does with its bytes.

use thermocline_column_store::Manifest;
use xxhash_rust::xxh3::xxh3_64;

/// Any bytes are an error or a manifest that is written as the same bytes; so are any bytes below a line 1 that fits
/// them: returns whether these are a manifest.
pub fn run(input: &[u8]) -> bool {
    compare(input);
    let head = format!("thermocline-manifest 1 {} {:016x}\n", input.len(), xxh3_64(input));
    compare(&[head.as_bytes(), input].concat())
}

fn compare(bytes: &[u8]) -> bool {
    let Ok(manifest) = Manifest::from_bytes(bytes) else { return false };
    let written = manifest.to_bytes().expect("a manifest that was read can be written");
    assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(bytes));
    true
}
