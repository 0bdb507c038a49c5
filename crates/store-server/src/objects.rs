//! Objects and what tells their versions apart.

use std::sync::Arc;

use crate::State;

/// One object.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) content: Arc<[u8]>,
    /// Which put of the server's life this was, from 1.
    pub(crate) put_number: u64,
}

impl Object {
    /// The tag, with its quotes; strong.
    pub(crate) fn etag(&self) -> String {
        format!("\"{:016x}\"", self.put_number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// When it was put, as headers say it. A second passes with each put, on one day long ago.
    pub(crate) fn http_date(&self) -> String {
        format!("Wed, 01 Jan 2020 {} GMT", self.time_of_day())
    }

    /// When it was put, as listings say it.
    pub(crate) fn iso_date(&self) -> String {
        format!("2020-01-01T{}.000Z", self.time_of_day())
    }

    fn time_of_day(&self) -> String {
        let second = self.put_number % 86_400;
        format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
    }
}

impl State {
    pub(crate) fn put(&mut self, path: &str, content: Vec<u8>) {
        self.put_count += 1;
        let object = Object { content: content.into(), put_number: self.put_count };
        self.objects.insert(path.to_owned(), object);
    }

    /// Whether an object was put into the bucket and is there.
    pub(crate) fn has_bucket(&self, bucket: &str) -> bool {
        let folder = format!("/{bucket}/");
        self.objects.range(folder.clone()..).next().is_some_and(|(path, _)| path.starts_with(&folder))
    }
}
