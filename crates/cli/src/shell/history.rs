//! Where the shell keeps what was typed: `$XDG_STATE_HOME/thermocline/history`, by default below `~/.local/state`.

use std::ffi::OsString;
use std::path::PathBuf;

/// Lines kept.
pub(super) const CAPACITY_LINES: usize = 10_000;

/// The file, with its folder made; `None` where there is no home, or it cannot be written: then history lasts as long
/// as the shell.
pub(super) fn file() -> Option<PathBuf> {
    let path = path(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))?;
    std::fs::create_dir_all(path.parent()?).ok()?;
    Some(path)
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
    use super::*;

    #[test]
    fn the_state_folder_of_xdg_comes_before_home() {
        let at = |state: Option<&str>, home: Option<&str>| path(state.map(OsString::from), home.map(OsString::from));
        assert_eq!(at(Some("/s"), Some("/h")), Some("/s/thermocline/history".into()));
        assert_eq!(at(None, Some("/h")), Some("/h/.local/state/thermocline/history".into()));
        assert_eq!(at(Some("relative"), Some("/h")), Some("/h/.local/state/thermocline/history".into()));
        assert_eq!(at(None, None), None);
    }
}
