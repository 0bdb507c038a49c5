//! The demo at a tiny scale: it tells its whole story, draws its picture and leaves nothing behind.

use std::path::Path;

use crate::interrupts::{end_in_time, wait_for};
use crate::run::{Finished, command, send};

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn the_demo_tells_where_each_answer_came_from_and_cleans_up() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("times.svg"), "an older one").unwrap();
    let output = command(folder.path())
        .args(["demo", "--scale", "0.002", "--svg", "times.svg"])
        .env("TMPDIR", temporary.path())
        .output()
        .unwrap();
    let text = Finished::from(output).ok();
    for expected in [
        "orders.ndjson",
        "lineitem.csv",
        "parsed from the file",
        "from memory, item ",
        "kept as item ",
        "of these the rows with",
        "Every answer equals",
        "times.svg (in place of the one that was there)",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "no colours in a pipe");
    let picture = std::fs::read_to_string(folder.path().join("times.svg")).unwrap();
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture}");
    assert!(is_empty(temporary.path()), "the temporary folder is gone");
}

#[test]
fn the_demo_keeps_its_data_where_it_was_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let demo = |keep: &str| {
        Finished::from(command(folder.path()).args(["demo", "--scale", "0.001", "--keep", keep]).output().unwrap())
    };
    demo("data").ok();
    for name in ["orders.ndjson", "orders.csv", "lineitem.csv"] {
        assert!(folder.path().join("data").join(name).is_file(), "{name}");
    }
    assert!(folder.path().join("thermocline-demo.svg").is_file());
    let message = demo("data").failed(1);
    assert!(message.contains("orders.ndjson: is there already"), "what is there is not overwritten: {message}");
    assert!(message.contains("remove it, or name another folder with --keep"), "{message}");
}

#[test]
fn a_picture_that_has_no_place_is_told_before_the_story() {
    let folder = tempfile::tempdir().unwrap();
    let demo = command(folder.path()).args(["demo", "--svg", "nowhere/times.svg"]).output().unwrap();
    let finished = Finished::from(demo);
    assert_eq!(finished.stdout, "");
    let message = finished.failed(1);
    assert!(message.contains("nowhere/times.svg: "), "{message}");
}

#[test]
fn a_demo_that_is_told_to_end_leaves_nothing_behind() {
    for signal in ["-INT", "-TERM"] {
        let folder = tempfile::tempdir().unwrap();
        let temporary = tempfile::tempdir().unwrap();
        let child =
            command(folder.path()).args(["demo", "--scale", "0.5"]).env("TMPDIR", temporary.path()).spawn().unwrap();
        wait_for("the demo's first file", || {
            let mut folders = std::fs::read_dir(temporary.path()).unwrap();
            folders.any(|folder| !is_empty(&folder.unwrap().path())).then_some(())
        });
        send(signal, child.id());
        let finished = end_in_time(child);
        assert_eq!(finished.code, Some(130), "{signal}: {finished:?}");
        assert!(is_empty(temporary.path()) && is_empty(folder.path()), "{signal}");
    }
}
