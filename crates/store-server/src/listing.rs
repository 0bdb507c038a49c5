//! ListObjectsV2: keys by prefix, folders by delimiter, page by page.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::State;
use crate::request::Request;

/// The document that answers a listing of `bucket`.
pub(crate) fn document(state: &State, bucket: &str, request: &Request) -> String {
    let prefix = request.parameter("prefix").unwrap_or_default();
    let delimiter = request.parameter("delimiter").filter(|text| !text.is_empty());
    // A token is the last key of the page before it.
    let after = request.parameter("continuation-token").or(request.parameter("start-after")).unwrap_or_default();
    let page_row_count = request
        .parameter("max-keys")
        .and_then(|text| text.parse().ok())
        .map_or(state.manners.page_row_count, |asked: usize| asked.min(state.manners.page_row_count));
    let folder = format!("/{bucket}/");
    let mut contents = String::new();
    let mut folders = BTreeSet::new();
    let mut row_count = 0;
    let mut last_key = "";
    let mut is_truncated = false;
    for (path, object) in state.objects.range(folder.clone()..) {
        let Some(key) = path.strip_prefix(&folder) else { break };
        if !key.starts_with(prefix) || key <= after {
            continue;
        }
        if row_count == page_row_count {
            is_truncated = true;
            break;
        }
        row_count += 1;
        last_key = key;
        if let Some(delimiter) = delimiter
            && let Some(end) = key[prefix.len()..].find(delimiter)
        {
            folders.insert(&key[..prefix.len() + end + delimiter.len()]);
            continue;
        }
        let etag = if state.manners.has_etags { object.etag() } else { String::new() };
        let (key, date, size_bytes) = (escape(key), object.iso_date(), object.content.len());
        let _ = write!(
            contents,
            "<Contents><Key>{key}</Key><LastModified>{date}</LastModified><ETag>{}</ETag><Size>{size_bytes}</Size>\
             <StorageClass>STANDARD</StorageClass></Contents>",
            escape(&etag)
        );
    }
    let folders: String = folders
        .iter()
        .map(|name| format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", escape(name)))
        .collect();
    let next = if is_truncated {
        format!("<NextContinuationToken>{}</NextContinuationToken>", escape(last_key))
    } else {
        String::new()
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult><Name>{bucket}</Name><Prefix>{}</Prefix>\
         <KeyCount>{row_count}</KeyCount><MaxKeys>{page_row_count}</MaxKeys><IsTruncated>{is_truncated}</IsTruncated>\
         {next}{contents}{folders}</ListBucketResult>",
        escape(prefix)
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
