//! Scans of objects over real HTTP give what decoding the bytes whole gives, or an error that names the object.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, poll};
use thermocline_medium::{Access, Location, MediumError, OpenStores, StoreOptions, list_remote};
use thermocline_seeded::Random;
use thermocline_store_server::{Fault, StoreServer};
use tokio::runtime::{Builder, Runtime};

use super::tests::{csv_plan, drain, gzip, ints, unshared, whole};
use super::*;

/// The client's timers and connections need a runtime around the calls, one that runs by itself.
fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn open(server: &StoreServer, runtime: &Runtime, url: &str) -> Source {
    let options = StoreOptions::anonymous().with_variable("AWS_ENDPOINT_URL", server.url());
    let access = Access::everything();
    let Location::Remote(pattern) = Location::parse(url).unwrap() else { panic!("{url} is local") };
    let store = OpenStores::new(Some(options)).get(pattern.store_url(), &access).unwrap();
    let listed = runtime.block_on(list_remote(&store, &pattern, None, &access)).unwrap();
    Source::Remote(Arc::new(RemoteFile::from_listed(store, pattern.store_url(), &listed[0]).unwrap()))
}

fn grain(random: &mut Random) -> Grain {
    let mut size_bytes = || 200 + random.below(2000) as u64;
    Grain {
        morsel_bytes: size_bytes(),
        piece_bytes: size_bytes() as usize,
        window_bytes: size_bytes(),
        chunk_bytes: size_bytes(),
    }
}

#[test]
fn a_scan_over_http_reads_each_record_once_whatever_the_server_suffers() {
    let server = StoreServer::start().unwrap();
    let runtime = runtime();
    let _entered = runtime.enter();
    let lines: String = (0..1000).map(|at| format!("{{\"b\":\"x\",\"a\":{at}}}\n")).collect();
    let rows: String = (0..500).map(|at| format!("{at},\"line {at}\nof two\",{at}\n")).collect();
    let table = format!("id,text,n\n{rows}");
    let (csv, csv_plan) = csv_plan(&table);
    for seed in 1..=4 {
        let random = &mut Random::new(seed);
        for (text, format, plan) in [(&lines, Format::Ndjson, ints()), (&table, csv.clone(), csv_plan.clone())] {
            let expected = whole(text.as_bytes(), &format, &plan).unwrap();
            for compression in [Compression::None, Compression::Gzip] {
                let bytes = match compression {
                    Compression::Gzip => gzip(text.as_bytes()),
                    _ => text.as_bytes().to_vec(),
                };
                server.put("/bucket/file", bytes.clone());
                let source = open(&server, &runtime, "s3://bucket/file");
                let (range, grain) = (0..bytes.len() as u64, grain(random));
                let scan = FileScan::with_grain(source, range, format.clone(), compression, plan.clone(), None, grain)
                    .unwrap();
                let faults = [Fault::None, Fault::Slow, Fault::Truncated, Fault::Status(503, "SlowDown")];
                server.add_faults((0..3).map(|_| faults[random.below(faults.len())].clone()));
                assert_eq!(drain(&scan).unwrap(), expected, "seed {seed} {format:?} {compression:?} {grain:?}");
            }
        }
    }
}

#[test]
fn an_object_put_anew_in_the_middle_of_a_scan_is_an_error() {
    let server = StoreServer::start().unwrap();
    let runtime = runtime();
    let _entered = runtime.enter();
    let text: String = (0..1000).map(|at| format!("{{\"a\":{at}}}\n")).collect();
    for compression in [Compression::None, Compression::Gzip] {
        let bytes = match compression {
            Compression::Gzip => gzip(text.as_bytes()),
            _ => text.as_bytes().to_vec(),
        };
        server.put("/bucket/file", bytes.clone());
        let source = open(&server, &runtime, "s3://bucket/file");
        let range = 0..bytes.len() as u64;
        // More than two requests, compressed or not.
        let grain = Grain { morsel_bytes: 300, chunk_bytes: 300, ..grain(&mut Random::new(1)) };
        let scan = FileScan::with_grain(source, range, Format::Ndjson, compression, ints(), None, grain).unwrap();
        server.add_faults([Fault::None, Fault::Replaced(bytes.clone())]);
        let error = drain(&scan).map(drop).unwrap_err();
        let changed = matches!(unshared(&error), RawError::Medium(MediumError::Changed { path, .. }) if path == "s3://bucket/file");
        assert!(changed, "{error:?}");
    }
}

#[test]
fn a_fetch_goes_on_although_another_is_not_polled_any_more() {
    let server = StoreServer::start().unwrap();
    let runtime = runtime();
    let _entered = runtime.enter();
    let text: String = (0..1000).map(|at| format!("{{\"a\":{at}}}\n")).collect();
    let bytes = gzip(text.as_bytes());
    server.put("/bucket/file", bytes.clone());
    let source = open(&server, &runtime, "s3://bucket/file");
    let range = 0..bytes.len() as u64;
    let grain = Grain { chunk_bytes: 300, ..grain(&mut Random::new(1)) };
    let scan = FileScan::with_grain(source, range, Format::Ndjson, Compression::Gzip, ints(), None, grain).unwrap();
    let morsels: Vec<Morsel> = std::iter::from_fn(|| scan.next_morsel().unwrap()).collect();
    let [first, second, ..] = <[Morsel; 3]>::try_from(morsels.into_iter().take(3).collect::<Vec<_>>()).unwrap();
    server.add_faults([Fault::Slow]);
    // As a cancelled query leaves it: begun, kept for others, and polled by nobody.
    let mut abandoned = scan.fetch(first).boxed();
    let fetched = runtime.block_on(async {
        assert!(poll!(&mut abandoned).is_pending());
        tokio::time::timeout(Duration::from_secs(30), scan.fetch(second)).await
    });
    scan.decode(fetched.expect("it waits for the one that nobody polls").unwrap()).unwrap();
    assert!(runtime.block_on(abandoned).is_ok());
}
