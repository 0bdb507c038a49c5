//! An S3-compatible store in memory, behind real HTTP on a port of this machine, for tests.
//!
//! **Owns:** [`StoreServer`]: GET and HEAD of objects with `Range`, `If-Match` and `If-None-Match`, ListObjectsV2, and
//! on request faults ([`Fault`]) and servers of fewer manners ([`Manners`]).
//!
//! **Does not own:** verifying signatures (only which key and region signed is looked at), uploads over HTTP: tests
//! put objects by a call.
//!
//! **Invariants:** each put gives a new ETag and a later modification time, by a counter: no clock is read. A
//! connection serves one request.
//!
//! **Concurrency:** a thread for each connection; all state is under one lock, never held while bytes are sent.

mod answer;
mod listing;
mod objects;
mod request;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use objects::Object;

/// What the server does to one GET of an object; they are used up in order, one a GET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: the GET is answered as it should be.
    None,
    /// Answers with this status and the error code as an S3 document.
    Status(u16, &'static str),
    /// Says the full length, sends half of it, and closes the connection.
    Truncated,
    /// Sends the body in 16 parts with 5 ms between them.
    Slow,
    /// Puts this content under the asked path before it answers.
    Replaced(Vec<u8>),
}

/// How much of HTTP the server keeps to. The default is all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manners {
    /// Whether objects have tags, and conditions on them are looked at.
    pub has_etags: bool,
    /// Whether tags are weak (`W/"…"`), which no `If-Match` ever matches.
    pub has_weak_etags: bool,
    /// Whether answers tell when an object was modified.
    pub has_last_modified: bool,
    /// Whether ranges are answered as such; otherwise every GET gets everything.
    pub has_ranges: bool,
    /// Objects in one page of a listing.
    pub page_row_count: usize,
}

impl Default for Manners {
    fn default() -> Self {
        Self { has_etags: true, has_weak_etags: false, has_last_modified: true, has_ranges: true, page_row_count: 1000 }
    }
}

#[derive(Debug, Default)]
struct State {
    /// By path: `/bucket/key`, not percent-encoded.
    objects: BTreeMap<String, Object>,
    redirects: BTreeMap<String, String>,
    faults: VecDeque<Fault>,
    manners: Manners,
    access_key: Option<String>,
    region: Option<String>,
    requests: Vec<String>,
    put_count: u64,
    is_closing: bool,
}

#[derive(Debug, Default)]
struct Shared(Mutex<State>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct StoreServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl StoreServer {
    /// Starts a server without objects on a free port of the loop-back device.
    ///
    /// # Errors
    /// When no port can be had.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || {
            for connection in listener.incoming() {
                if accepting.lock().is_closing {
                    break;
                }
                let Ok(connection) = connection else { continue };
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || {
                    // A client that went away is no concern of the server's.
                    let _ = serve(&shared, connection);
                });
            }
        });
        Ok(Self { address, shared, acceptor: Some(acceptor) })
    }

    /// `http://127.0.0.1:port`, for `AWS_ENDPOINT_URL` or as the beginning of an HTTP URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Puts an object; `path` is `/bucket/key`. The bucket exists from now on.
    pub fn put(&self, path: &str, content: impl Into<Vec<u8>>) {
        self.shared.lock().put(path, content.into());
    }

    /// Deletes an object, if there is one.
    pub fn delete(&self, path: &str) {
        self.shared.lock().objects.remove(path);
    }

    /// Answers requests for `path` by a redirect to the URL `to`.
    pub fn redirect(&self, path: &str, to: &str) {
        self.shared.lock().redirects.insert(path.to_owned(), to.to_owned());
    }

    /// Does this to the next GETs of objects, one each.
    pub fn add_faults(&self, faults: impl IntoIterator<Item = Fault>) {
        self.shared.lock().faults.extend(faults);
    }

    /// From now on behaves like this.
    pub fn set_manners(&self, manners: Manners) {
        self.shared.lock().manners = manners;
    }

    /// From now on refuses, with 403, whatever is not signed with this access key.
    pub fn require_access_key(&self, access_key: &str) {
        self.shared.lock().access_key = Some(access_key.to_owned());
    }

    /// From now on all buckets are in this region; what is signed for another is refused as S3 does.
    pub fn set_region(&self, region: &str) {
        self.shared.lock().region = Some(region.to_owned());
    }

    /// Method, path and range of each request since the last call: `GET /bucket/key bytes=0-9`.
    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.lock().requests)
    }
}

impl Drop for StoreServer {
    fn drop(&mut self) {
        self.shared.lock().is_closing = true;
        // Wakes the acceptor, which then sees that it should end.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(acceptor) = self.acceptor.take().filter(|_| woken) {
            let _ = acceptor.join();
        }
    }
}

fn serve(shared: &Shared, mut connection: TcpStream) -> io::Result<()> {
    // So that a client that never asks leaves no thread behind.
    connection.set_read_timeout(Some(Duration::from_secs(10)))?;
    let Some(request) = request::read(&mut connection)? else { return Ok(()) };
    let answer = answer::to(&mut shared.lock(), &request);
    answer.send(&mut connection, request.is_head)
}
