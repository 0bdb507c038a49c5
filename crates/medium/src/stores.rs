//! Stores that open by their URL: `s3://bucket`, `http://host`, `https://host`.
//!
//! **Owns:** what the environment says about S3 ([`StoreOptions`]), opening a store ([`open_store`]), and remembering the
//! opened ones with their connections ([`OpenStores`]). How long a server may take, and which of its answers are faults
//! of configuration, is said in `connector`.
//!
//! **Does not own:** who may read what: a caller asks [`Access`] for the URL before it uses a store. A redirect would lead
//! out of what was allowed, so where access is restricted none is followed.
//!
//! **Invariants:** opening makes no request. No string a user wrote makes a request that cannot be built: buckets, hosts
//! and endpoints are looked at first.
//!
//! **Concurrency:** stores are shared by all threads; the map of open ones is behind a lock that is not held during I/O.

mod connector;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::http::HttpBuilder;
use object_store::{ClientOptions, ObjectStore};
use reqwest::Url;

use crate::{Access, MediumError, Result};
use connector::Connector;
pub(crate) use connector::StoreFault;

/// Stores kept open at most. Beyond all are forgotten (those in use live on): a server that runs others' SQL must not
/// gather connections for each host ever named.
const OPEN_STORES: usize = 64;

/// How stores are reached.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// The variables that begin with `AWS_`, by name.
    variables: Vec<(String, String)>,
    follows_redirects: bool,
}

impl StoreOptions {
    /// No variables: S3 as anyone may read it, in `us-east-1`. Redirects of HTTP servers are followed.
    pub fn anonymous() -> Self {
        Self { variables: Vec::new(), follows_redirects: true }
    }

    /// What the process's environment says now: every variable that begins with `AWS_` and is not empty.
    pub fn from_environment() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let mut variables: Vec<(String, String)> = std::env::vars_os()
            .filter_map(text)
            .filter(|(name, value)| name.starts_with("AWS_") && !value.is_empty())
            .collect();
        variables.sort();
        Self { variables, follows_redirects: true }
    }

    /// The same with this variable, as if it stood in the environment.
    pub fn with_variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        self.variables.retain(|(known, _)| *known != name);
        self.variables.push((name, value.into()));
        self
    }

    /// The same, following redirects of HTTP servers or refusing them. S3's are never followed: a signature holds for one
    /// host.
    pub fn with_redirects(self, follows_redirects: bool) -> Self {
        Self { follows_redirects, ..self }
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl std::fmt::Debug for StoreOptions {
    /// Names only: values are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.variables.iter().map(|(name, _)| name.as_str()).collect();
        let follows = self.follows_redirects;
        f.debug_struct("StoreOptions").field("variables", &names).field("follows_redirects", &follows).finish()
    }
}

/// The store at `store_url` (`s3://bucket`, `https://host:8080`), reached as `options` say. Asks nobody anything yet.
///
/// For S3 the variables are those of AWS's own tools: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`,
/// `AWS_REGION` or `AWS_DEFAULT_REGION`, `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`; a role by
/// `AWS_WEB_IDENTITY_TOKEN_FILE` and `AWS_ROLE_ARN`, or by the container's `AWS_CONTAINER_CREDENTIALS_…`; the machine's own
/// role only with `AWS_EC2_METADATA_DISABLED=false`, since elsewhere nobody answers. Without any of these, or with
/// `AWS_SKIP_SIGNATURE=true`, requests are anonymous.
///
/// # Errors
/// [`MediumError::InvalidLocation`]: another scheme, a name that no bucket or host has, variables that contradict each
/// other or cannot be understood.
pub fn open_store(store_url: &str, options: &StoreOptions) -> Result<Arc<dyn ObjectStore>> {
    match store_url.split_once("://") {
        Some(("s3", bucket)) => open_s3(store_url, bucket, options),
        Some(("http" | "https", _)) => open_http(store_url, options),
        _ => Err(invalid(store_url, "no store of this kind is registered; s3, http and https URLs open by themselves")),
    }
}

fn open_s3(store_url: &str, bucket: &str, options: &StoreOptions) -> Result<Arc<dyn ObjectStore>> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    if !bucket.starts_with(|first: char| first.is_ascii_alphanumeric()) || !bucket.chars().all(is_name) {
        return Err(invalid(store_url, "no bucket has such a name: letters, digits, dots and hyphens are expected"));
    }
    let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]
        .into_iter()
        .find_map(|name| Some((name, options.variable(name)?)));
    let mut allows_http = options.variable("AWS_ALLOW_HTTP").is_some_and(is_true);
    if let Some((name, endpoint)) = endpoint {
        if !is_web_url(endpoint) {
            let reason = format!("{name} is '{endpoint}', expected a URL such as https://s3.example.org");
            return Err(invalid(store_url, reason));
        }
        // Who writes http:// means it, as for AWS's own tools.
        allows_http |= endpoint.starts_with("http://") && options.variable("AWS_ALLOW_HTTP").is_none();
    }
    let region = options.variable("AWS_REGION").or(options.variable("AWS_DEFAULT_REGION")).unwrap_or("us-east-1");
    if !region.chars().all(is_name) {
        return Err(invalid(store_url, format!("AWS_REGION is '{region}', expected a name such as eu-central-1")));
    }
    let mut builder = AmazonS3Builder::new();
    for (name, value) in &options.variables {
        // The bucket is the URL's; variables that mean nothing to the client are those of other tools.
        if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>()
            && !matches!(key, AmazonS3ConfigKey::Bucket | AmazonS3ConfigKey::Client(_))
        {
            builder = builder.with_config(key, value);
        }
    }
    if !is_signed(options) {
        builder = builder.with_skip_signature(true);
    }
    let connector = Connector { follows_redirects: false, region: Some(region.to_owned()) };
    let store = builder
        .with_bucket_name(bucket)
        .with_region(region)
        .with_client_options(ClientOptions::new().with_allow_http(allows_http))
        .with_retry(connector::retries())
        .with_http_connector(connector)
        .build()
        .map_err(|error| invalid(store_url, format!("the AWS_… variables make no client: {error}")))?;
    Ok(Arc::new(store))
}

/// Whether the variables name credentials or where to ask for them.
fn is_signed(options: &StoreOptions) -> bool {
    let is_set = |name| options.variable(name).is_some();
    is_set("AWS_ACCESS_KEY_ID")
        || is_set("AWS_SECRET_ACCESS_KEY")
        || (is_set("AWS_WEB_IDENTITY_TOKEN_FILE") && is_set("AWS_ROLE_ARN"))
        || is_set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        || is_set("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        || options.variable("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("false"))
}

fn open_http(store_url: &str, options: &StoreOptions) -> Result<Arc<dyn ObjectStore>> {
    if !is_web_url(store_url) {
        return Err(invalid(store_url, "no host has such a name; user names and passwords in URLs are not supported"));
    }
    let connector = Connector { follows_redirects: options.follows_redirects, region: None };
    let store = HttpBuilder::new()
        .with_url(store_url)
        .with_client_options(ClientOptions::new().with_allow_http(store_url.starts_with("http://")))
        .with_retry(connector::retries())
        .with_http_connector(connector)
        .build()
        .map_err(|source| MediumError::from_store(store_url, "set up the connection", source))?;
    Ok(Arc::new(store))
}

/// An HTTP URL with a host and without user, password, query and fragment.
fn is_web_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    })
}

fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "on" | "yes" | "y" | "t")
}

fn invalid(location: &str, reason: impl Into<String>) -> MediumError {
    MediumError::InvalidLocation { location: location.to_owned(), reason: reason.into() }
}

/// A store and what it was opened with.
type OpenStore = (StoreOptions, Arc<dyn ObjectStore>);

/// Stores by URL, each opened once.
#[derive(Default)]
pub struct OpenStores {
    /// `None` asks the environment each time: who renews a session token need not start anew.
    options: Option<StoreOptions>,
    open: Mutex<HashMap<String, OpenStore>>,
}

impl std::fmt::Debug for OpenStores {
    /// Without the stores, which print their credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenStores").field("options", &self.options).finish_non_exhaustive()
    }
}

impl OpenStores {
    /// Stores reached as `options` say, or as the environment says when they are wanted.
    pub fn new(options: Option<StoreOptions>) -> Self {
        Self { options, open: Mutex::default() }
    }

    /// The store at `store_url`, opened now unless it is open under the same options. Redirects are refused where `access`
    /// is restricted; whether the URL itself may be read is asked by whoever reads.
    ///
    /// # Errors
    /// Those of [`open_store`].
    pub fn get(&self, store_url: &str, access: &Access) -> Result<Arc<dyn ObjectStore>> {
        let options = self.options.clone().unwrap_or_else(StoreOptions::from_environment);
        let follows_redirects = options.follows_redirects && !access.is_restricted();
        let options = options.with_redirects(follows_redirects);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, store)) = open.get(store_url)
            && *known == options
        {
            return Ok(Arc::clone(store));
        }
        let store = open_store(store_url, &options)?;
        if open.len() >= OPEN_STORES {
            open.clear();
        }
        open.insert(store_url.to_owned(), (options, Arc::clone(&store)));
        Ok(store)
    }
}

#[cfg(test)]
mod tests;
