//! What a request is answered with.

use std::io::{self, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::objects::Object;
use crate::request::Request;
use crate::{Fault, State, listing};

/// Status, headers and body of an answer, and how the body is sent.
#[derive(Debug)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Arc<[u8]>,
    range: Range<usize>,
    fault: Fault,
}

/// Parts that a slow body is sent in.
const SLOW_PARTS: usize = 16;

impl Answer {
    fn of(status: u16, body: Arc<[u8]>) -> Self {
        let range = 0..body.len();
        Self { status, headers: Vec::new(), body, range, fault: Fault::None }
    }

    fn error(status: u16, code: &str) -> Self {
        let text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code></Error>");
        Self::of(status, text.into_bytes().into())
    }

    /// Writes the answer, without its body if only its head was asked for.
    pub(crate) fn send(&self, to: &mut TcpStream, is_head: bool) -> io::Result<()> {
        let body = &self.body[self.range.clone()];
        let mut head = format!("HTTP/1.1 {} -\r\nConnection: close\r\nContent-Length: {}\r\n", self.status, body.len());
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        to.write_all(head.as_bytes())?;
        if is_head || self.status == 304 {
            return Ok(());
        }
        match self.fault {
            Fault::Truncated => to.write_all(&body[..body.len() / 2]),
            Fault::Slow => {
                for part in body.chunks(body.len().div_ceil(SLOW_PARTS).max(1)) {
                    to.write_all(part)?;
                    to.flush()?;
                    std::thread::sleep(Duration::from_millis(5));
                }
                Ok(())
            }
            _ => to.write_all(body),
        }
    }
}

/// The answer to `request`, which is noted.
pub(crate) fn to(state: &mut State, request: &Request) -> Answer {
    let range = request.header("range").map(|range| format!(" {range}")).unwrap_or_default();
    state.requests.push(format!("{} {}{range}", request.method, request.path));
    if request.method != "GET" && !request.is_head {
        return Answer::error(405, "MethodNotAllowed");
    }
    if let Some(refusal) = refusal(state, request) {
        return refusal;
    }
    if let Some(to) = state.redirects.get(&request.path) {
        let mut answer = Answer::error(302, "Found");
        answer.headers.push(("Location", to.clone()));
        return answer;
    }
    let mut names = request.path.trim_start_matches('/').splitn(2, '/');
    let (bucket, key) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    if key.is_empty() || request.parameter("list-type").is_some() {
        if !state.has_bucket(bucket) {
            return Answer::error(404, "NoSuchBucket");
        }
        return Answer::of(200, listing::document(state, bucket, request).into_bytes().into());
    }
    let fault = if request.is_head { None } else { state.faults.pop_front() }.unwrap_or(Fault::None);
    match &fault {
        Fault::Status(status, code) => return Answer::error(*status, code),
        Fault::Replaced(content) => state.put(&request.path, content.clone()),
        _ => {}
    }
    match state.objects.get(&request.path) {
        Some(object) => Answer { fault, ..of_object(state, object, request) },
        None if state.has_bucket(bucket) => Answer::error(404, "NoSuchKey"),
        None => Answer::error(404, "NoSuchBucket"),
    }
}

/// The answer to what is not signed, or not for the right region.
fn refusal(state: &State, request: &Request) -> Option<Answer> {
    let signature = request.header("authorization").unwrap_or_default();
    // Credential=KEY/DATE/REGION/s3/aws4_request
    let scope = signature.split("Credential=").nth(1).unwrap_or_default();
    let mut scope = scope.split('/');
    if let Some(access_key) = &state.access_key
        && scope.next() != Some(access_key)
    {
        let code = if signature.is_empty() { "AccessDenied" } else { "InvalidAccessKeyId" };
        return Some(Answer::error(403, code));
    }
    let signed_region = signature.split('/').nth(2);
    match (&state.region, signed_region) {
        (Some(region), Some(signed)) if region != signed => {
            let mut answer = Answer::error(400, "AuthorizationHeaderMalformed");
            answer.headers.push(("x-amz-bucket-region", region.clone()));
            Some(answer)
        }
        _ => None,
    }
}

fn of_object(state: &State, object: &Object, request: &Request) -> Answer {
    let manners = state.manners;
    let etag = object.etag();
    let mut headers = vec![("Accept-Ranges", "bytes".to_owned())];
    if manners.has_etags {
        let shown = if manners.has_weak_etags { format!("W/{etag}") } else { etag.clone() };
        headers.push(("ETag", shown));
        // A weak tag matches no If-Match (RFC 9110, 13.1.1).
        if request.header("if-match").is_some_and(|wanted| manners.has_weak_etags || wanted != etag) {
            return Answer::error(412, "PreconditionFailed");
        }
        if request.header("if-none-match").is_some_and(|known| known.trim_start_matches("W/") == etag) {
            return Answer { headers, ..Answer::of(304, Arc::from([])) };
        }
    }
    if manners.has_last_modified {
        headers.push(("Last-Modified", object.http_date()));
    }
    let size_bytes = object.content.len();
    let asked = request.header("range").filter(|_| manners.has_ranges).and_then(|range| parse_range(range, size_bytes));
    match asked {
        Some(range) if range.start < size_bytes => {
            headers.push(("Content-Range", format!("bytes {}-{}/{size_bytes}", range.start, range.end - 1)));
            Answer { headers, range, ..Answer::of(206, Arc::clone(&object.content)) }
        }
        Some(_) => Answer::error(416, "InvalidRange"),
        None => Answer { headers, ..Answer::of(200, Arc::clone(&object.content)) },
    }
}

/// `bytes=first-last`, cut off at the object's end.
fn parse_range(text: &str, size_bytes: usize) -> Option<Range<usize>> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let first: usize = first.parse().ok()?;
    let last: usize = if last.is_empty() { size_bytes } else { last.parse().ok()? };
    Some(first..(last.saturating_add(1)).min(size_bytes))
}
