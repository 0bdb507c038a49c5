//! What a store's failure means and what to do about it, in a sentence.
//!
//! The client of a store reports as text what its server or connection said, with the causes as a chain of errors. What
//! can be told from types is; host names and certificates are only told by the text of the causes.

use std::error::Error as StdError;
use std::io;

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};

use crate::MediumError;
use crate::stores::StoreFault;

/// The error for a call on the object at `url` that failed; `action` completes "cannot …".
pub(crate) fn explain(url: String, action: String, source: Error) -> MediumError {
    let code = code_of(&source);
    // A listing that fails keeps the answer's text only.
    match (&source, code.as_deref()) {
        (_, Some("NoSuchBucket")) => MediumError::NoSuchBucket { url },
        (Error::NotFound { .. }, _) => MediumError::NoSuchObject { url },
        (Error::Precondition { .. } | Error::NotModified { .. }, _) => {
            MediumError::Changed { path: url, difference: "the store holds another object under this name".to_owned() }
        }
        (Error::PermissionDenied { .. } | Error::Unauthenticated { .. }, _) => refused(url, code, source),
        (_, Some(known)) if REFUSALS.contains(&known) => refused(url, code, source),
        (Error::NotSupported { .. }, _) => {
            let reason = "the server does not answer requests for a part of a file (header Range), which reading needs; \
                          download the file, or serve it by another server";
            MediumError::Unreachable { url, reason: reason.to_owned(), source: Box::new(source) }
        }
        _ => match connection_failure(&source) {
            Some(reason) => MediumError::Unreachable { url, reason, source: Box::new(source) },
            None => MediumError::Store { url, action, source },
        },
    }
}

/// S3's codes for requests it does not grant whoever signed them, some of which come with status 400.
const REFUSALS: [&str; 8] = [
    "AccessDenied",
    "AllAccessDisabled",
    "AccountProblem",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
];

fn refused(url: String, code: Option<String>, source: Error) -> MediumError {
    let said = code.map(|code| format!(" ({code})")).unwrap_or_default();
    let advice = advice_on_refusal(&url);
    MediumError::AccessRefused { url, said, advice, source: Box::new(source) }
}

fn advice_on_refusal(url: &str) -> &'static str {
    if url.starts_with("http") {
        "only what can be read without a password is supported"
    } else {
        "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN (without them requests are anonymous), that \
         they have not run out, and that they may read the object and list the bucket"
    }
}

/// Why there was no answer, or none that belongs to the question; `None` if there was one.
fn connection_failure(source: &Error) -> Option<String> {
    let mut is_timeout = false;
    let mut is_http_failure = false;
    let mut last = String::new();
    for cause in causes(source) {
        if let Some(fault) = cause.downcast_ref::<StoreFault>() {
            return Some(fault.to_string());
        }
        if let Some(error) = cause.downcast_ref::<HttpError>() {
            is_http_failure = true;
            is_timeout |= error.kind() == HttpErrorKind::Timeout;
        }
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            match error.kind() {
                io::ErrorKind::ConnectionRefused => {
                    return Some(
                        "the host refuses connections; check the port, and whether the server runs".to_owned(),
                    );
                }
                io::ErrorKind::TimedOut => is_timeout = true,
                _ => {}
            }
        }
        last = cause.to_string();
        if last.contains("dns error") || last.contains("failed to lookup address") {
            return Some("the host's name is not known; check it, and that this machine can resolve names".to_owned());
        }
        if last.contains("certificate") {
            return Some(format!(
                "no trusted connection can be made: {last}; if the server's certificate is your own, name its issuer's in \
                 the variable SSL_CERT_FILE"
            ));
        }
        if last.contains("corrupt message") || last.contains("handshake") {
            return Some(format!(
                "no encrypted connection can be made: {last}; if the server speaks plain HTTP, write http://"
            ));
        }
        if last.contains("scheme is not http") || last.contains("URL scheme is not allowed") {
            return Some(
                "the connection would not be encrypted; write https://, or set AWS_ALLOW_HTTP=true".to_owned(),
            );
        }
    }
    if is_timeout {
        let text = "the host does not answer; check its name and port, and that this machine may reach it";
        return Some(text.to_owned());
    }
    is_http_failure.then(|| format!("the connection failed: {last}; try again"))
}

/// The error and its causes.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| cause(*error))
}

fn cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    // An I/O error's source skips what it wraps.
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner as &(dyn StdError + 'static)),
        None => error.source(),
    }
}

/// The code in the document that the store answered with.
fn code_of(source: &Error) -> Option<String> {
    let text = source.to_string();
    let (_, rest) = text.split_once("<Code>")?;
    rest.split_once("</Code>").map(|(code, _)| code.to_owned())
}
