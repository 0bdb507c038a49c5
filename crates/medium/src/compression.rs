//! Which compression a file's name announces.

use std::path::Path;

/// How a file's bytes are compressed, by the last suffix of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// `.gz`, `.gzip`: one or more gzip members.
    Gzip,
    /// `.zst`, `.zstd`: one or more zstd frames.
    Zstd,
}

impl Compression {
    /// By the name's last suffix, in any case of letters: `a.csv.GZ` is gzip. Works on URLs too.
    pub fn from_path(path: impl AsRef<Path>) -> Self {
        Self::split(path.as_ref()).0
    }

    /// The compression, and the name's suffix below it in lower case: `a.ndjson.gz` gives `(Gzip, "ndjson")`.
    ///
    /// The suffix is empty when there is none.
    pub fn and_suffix(path: impl AsRef<Path>) -> (Self, String) {
        let (compression, suffix) = Self::split(path.as_ref());
        (compression, suffix.unwrap_or_default())
    }

    fn split(path: &Path) -> (Self, Option<String>) {
        let suffix_of = |path: &Path| path.extension().map(|suffix| suffix.to_string_lossy().to_ascii_lowercase());
        let last = suffix_of(path);
        let compression = match last.as_deref() {
            Some("gz" | "gzip") => Self::Gzip,
            Some("zst" | "zstd") => Self::Zstd,
            _ => return (Self::None, last),
        };
        let below = path.file_stem().and_then(|stem| suffix_of(Path::new(stem)));
        (compression, below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_suffix_tells_the_compression() {
        assert_eq!(Compression::from_path("a.csv"), Compression::None);
        assert_eq!(Compression::from_path("a.csv.gz"), Compression::Gzip);
        assert_eq!(Compression::from_path("s3://b/A.NDJSON.ZST"), Compression::Zstd);
        assert_eq!(Compression::from_path("gz"), Compression::None);
        assert_eq!(Compression::from_path("a.gz/b.csv"), Compression::None);
    }

    #[test]
    fn the_suffix_below_the_compression_tells_the_format() {
        assert_eq!(Compression::and_suffix("x/a.b.NDJSON.gz"), (Compression::Gzip, "ndjson".to_owned()));
        assert_eq!(Compression::and_suffix("a.csv"), (Compression::None, "csv".to_owned()));
        assert_eq!(Compression::and_suffix("a.zstd"), (Compression::Zstd, String::new()));
        assert_eq!(Compression::and_suffix("README"), (Compression::None, String::new()));
    }
}
