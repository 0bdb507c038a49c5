//! Where the shell keeps what was typed: `$XDG_STATE_HOME/thermocline/history`, by default below `~/.local/state`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Lines kept.
pub(super) const CAPACITY_LINES: usize = 10_000;

/// The file, with its folder made; `None` where there is no home, or it cannot be written: then history lasts as long
/// as the shell.
pub(super) fn file() -> Option<PathBuf> {
    let path = path(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))?;
    std::fs::create_dir_all(path.parent()?).ok()?;
    Some(path)
}

/// Makes text of what is not in the file: the line editor refuses to read all of it, and so to add to it, for one byte.
///
/// # Errors
/// When the file cannot be read or written; that there is none is no error.
pub(super) fn mend(path: &Path) -> io::Result<()> {
    let mut file = match File::options().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        outcome => outcome?,
    };
    // As the line editor does, beside which another one may write.
    file.lock()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    if std::str::from_utf8(&bytes).is_ok() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&bytes);
    file.rewind()?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)
}

/// By the XDG base directory specification a relative path is to be ignored.
fn path(state_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let base = state_home
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| home.map(PathBuf::from).filter(|path| path.is_absolute()).map(|home| home.join(".local/state")))?;
    Some(base.join("thermocline").join("history"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_line_that_is_no_text_costs_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("history");
        mend(&file).unwrap();
        assert!(!file.exists());
        std::fs::write(&file, b"#V2\nSELECT 1;\nSELECT '\xe9\xe9';\nSELECT 2;\n").unwrap();
        mend(&file).unwrap();
        let mended = "#V2\nSELECT 1;\nSELECT '\u{fffd}\u{fffd}';\nSELECT 2;\n";
        assert_eq!(std::fs::read_to_string(&file).unwrap(), mended);
        mend(&file).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), mended);
    }

    #[test]
    fn the_state_folder_of_xdg_comes_before_home() {
        let at = |state: Option<&str>, home: Option<&str>| path(state.map(OsString::from), home.map(OsString::from));
        assert_eq!(at(Some("/s"), Some("/h")), Some("/s/thermocline/history".into()));
        assert_eq!(at(None, Some("/h")), Some("/h/.local/state/thermocline/history".into()));
        assert_eq!(at(Some("relative"), Some("/h")), Some("/h/.local/state/thermocline/history".into()));
        assert_eq!(at(None, None), None);
    }
}
