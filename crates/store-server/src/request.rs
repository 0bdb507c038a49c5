//! A request as it came over the wire.

use std::io::{self, Read};

/// What is looked at of a request.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) is_head: bool,
    /// Decoded, without the query: `/bucket/key`.
    pub(crate) path: String,
    /// Names and values, decoded.
    pub(crate) query: Vec<(String, String)>,
    /// Names in small letters.
    headers: Vec<(String, String)>,
}

impl Request {
    /// The header's value; its name in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter of the query.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Bytes of a request's head at most.
const HEAD_MOST_BYTES: usize = 64 << 10;

/// Reads a request's head; `None` when the connection ends before it does. Bodies are not read: no method has one.
pub(crate) fn read(from: &mut impl Read) -> io::Result<Option<Request>> {
    let mut head = Vec::new();
    let mut part = [0; 4096];
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let read = from.read(&mut part)?;
        if read == 0 || head.len() > HEAD_MOST_BYTES {
            return Ok(None);
        }
        head.extend_from_slice(&part[..read]);
        // The beginning of TLS, which is spoken to the wrong port: answered in plain, as other servers do.
        if head[0] == 0x16 {
            return Ok(Some(Request::default()));
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")))
    });
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
    Ok(Some(Request {
        is_head: method == "HEAD",
        method,
        path: decode(path),
        query: query.collect(),
        headers: headers.collect(),
    }))
}

/// Percent-encoding undone; what is none stays.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
