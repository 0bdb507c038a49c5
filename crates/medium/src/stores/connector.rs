//! HTTP connections that end: limits on silence, bounded retries, and answers that are faults of configuration.
//!
//! There is no limit on a whole request, which on a slow line would punish large ranges, but on silence: connecting
//! takes [`CONNECT_TIMEOUT`], and no wait for the next bytes longer than [`SILENCE_TIMEOUT`]. With [`retries`] a host
//! that does not answer is given up within about 20 s.

use std::time::Duration;

use async_trait::async_trait;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, RetryConfig};
use reqwest::redirect::Policy;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const SILENCE_TIMEOUT: Duration = Duration::from_secs(20);
const REDIRECTS: usize = 5;

/// Retries of server errors and of broken connections: at most four, none begun later than 12 s after the first try.
pub(super) fn retries() -> RetryConfig {
    let backoff =
        BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(3), base: 2.0 };
    RetryConfig { backoff, max_retries: 4, retry_timeout: Duration::from_secs(12) }
}

/// An answer that no retry and no other object would change.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreFault {
    /// The bucket is elsewhere than the request was signed for.
    #[error("the bucket is in region {found}, not in {asked}; set AWS_REGION={found}")]
    WrongRegion {
        /// What the request was signed for.
        asked: String,
        /// Where the bucket is.
        found: String,
    },
    /// A redirect where none is followed.
    #[error("{}", redirect_text(.to))]
    Redirected {
        /// Where to, if the server says so.
        to: Option<String>,
    },
}

fn redirect_text(to: &Option<String>) -> String {
    match to {
        Some(to) => format!(
            "the server redirects to {to}, which is not followed here (for S3 the region or endpoint may be wrong; with \
             allowed_directories set no redirect is): name that URL"
        ),
        None => "the store says it is elsewhere, not where; set AWS_REGION to the bucket's region".to_owned(),
    }
}

/// Makes the clients of one store.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) follows_redirects: bool,
    /// For S3: the region that requests are signed for.
    pub(super) region: Option<String>,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|value| value == "true");
        let policy = if self.follows_redirects { Policy::limited(REDIRECTS) } else { Policy::none() };
        let client = reqwest::Client::builder()
            .user_agent(concat!("thermocline/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(SILENCE_TIMEOUT)
            .redirect(policy)
            .https_only(!allows_http)
            .http1_only()
            .build()
            .map_err(|error| object_store::Error::Generic { store: "HTTP", source: Box::new(error) })?;
        Ok(HttpClient::new(Service { client, region: self.region.clone() }))
    }
}

#[derive(Debug)]
struct Service {
    client: reqwest::Client,
    region: Option<String>,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = self.client.call(request).await?;
        match fault(&response, self.region.as_deref()) {
            // An unknown kind is not retried.
            Some(fault) => Err(HttpError::new(HttpErrorKind::Unknown, fault)),
            None => Ok(response),
        }
    }
}

fn fault(response: &HttpResponse, region: Option<&str>) -> Option<StoreFault> {
    let status = response.status();
    if status.is_success() || status.as_u16() == 304 {
        return None;
    }
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    if let (Some(asked), Some(found)) = (region, header("x-amz-bucket-region"))
        && asked != found
        && (status.is_redirection() || status.as_u16() == 400)
    {
        return Some(StoreFault::WrongRegion { asked: asked.to_owned(), found: found.to_owned() });
    }
    status.is_redirection().then(|| StoreFault::Redirected { to: header("location").map(str::to_owned) })
}
