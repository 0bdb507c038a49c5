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
        let suffix = path.as_ref().extension().map(|suffix| suffix.to_string_lossy().to_ascii_lowercase());
        match suffix.as_deref() {
            Some("gz" | "gzip") => Self::Gzip,
            Some("zst" | "zstd") => Self::Zstd,
            _ => Self::None,
        }
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
}
