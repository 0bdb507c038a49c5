#!/usr/bin/env python3
"""Checks that dependencies point one way, that DataFusion stays in its room and that no crate is there twice.

    scripts/check_layers.py               the three checks; exit 1 and one line for each finding
    scripts/check_layers.py --above NAME  prints `-p PACKAGE` for each member listed above NAME (for cargo)
    scripts/check_layers.py --self-test

Layers      The members in the root Cargo.toml are the layers. A member may depend only on members above it, for tests
            and build scripts too.
Rooms       Crates named in ROOMS may be named only by the members beside them.
Duplicates  What `cargo tree -d -e normal` shows must stand in duplicate_dependencies.txt with a reason, and nothing else may.
"""
import sys
from pathlib import Path

from workspace_manifest import Member, cargo, member_folders, members

# Crate (and every crate whose name starts with it and a dash) -> folders of the members that may name it.
ROOMS = {"datafusion": {"crates/engine"}}
ALLOWED_DUPLICATES = Path(__file__).with_name("duplicate_dependencies.txt")


def layer_findings(ordered: list[Member]) -> list[str]:
    """One line for each dependency on a member that does not stand above."""
    place = {member.package: index for index, member in enumerate(ordered)}
    return [
        f"{member.folder}/Cargo.toml: depends on {name}, which is not above it in the root Cargo.toml"
        for index, member in enumerate(ordered)
        for name in sorted(set(member.dependencies))
        if place.get(name, -1) >= index
    ]


def room_findings(ordered: list[Member], rooms: dict[str, set[str]]) -> list[str]:
    """One line for each crate that is named outside its room."""
    return [
        f"{member.folder}/Cargo.toml: names {name}; only {', '.join(sorted(allowed))} may"
        for member in ordered
        for name in sorted(set(member.dependencies))
        for crate, allowed in rooms.items()
        if (name == crate or name.startswith(crate + "-")) and member.folder not in allowed
    ]


def parse_allowed(text: str) -> dict[str, str]:
    """Crate -> reason."""
    allowed = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            name, _, reason = line.partition(":")
            if not reason.strip():
                raise ValueError(f"{ALLOWED_DUPLICATES.name} line {number}: expected `crate: reason`, found {line!r}")
            allowed[name.strip()] = reason.strip()
    return allowed


def parse_duplicates(tree: str) -> dict[str, list[str]]:
    """Crate -> versions, from `cargo tree -d --prefix none --depth 0`."""
    versions: dict[str, set[str]] = {}
    for line in tree.splitlines():
        words = line.split()
        if len(words) >= 2 and words[1].startswith("v"):
            versions.setdefault(words[0], set()).add(words[1])
    # The same version twice is one crate built for two targets or feature sets, not two versions.
    return {name: sorted(found) for name, found in versions.items() if len(found) > 1}


def duplicate_findings(duplicates: dict[str, list[str]], allowed: dict[str, str]) -> list[str]:
    """One line for each duplicate without a reason and each reason without a duplicate."""
    return [
        f"{name} is in the tree as {' and '.join(versions)}: see `cargo tree -i {name}@{versions[0][1:]}`"
        for name, versions in sorted(duplicates.items())
        if name not in allowed
    ] + [
        f"{ALLOWED_DUPLICATES.name}: {name} is there in one version only; remove the line"
        for name in sorted(allowed)
        if name not in duplicates
    ]


def above(ordered: list[Member], name: str) -> list[str]:
    """Packages of the members listed before the one whose folder ends in `name`."""
    for index, member in enumerate(ordered):
        if Path(member.folder).name == name:
            return [earlier.package for earlier in ordered[:index]]
    raise ValueError(f"no member's folder is called {name}")


def self_test() -> None:
    """Plain assertions on small inputs: each check must pass what is right and catch what is wrong."""
    manifest = '[workspace]\nmembers = [\n    "crates/a", # "crates/not"\n    "b",\n]\nother = ["x"]\n'
    assert member_folders(manifest) == ["crates/a", "b"]

    a = Member("t-a", "crates/a", ("serde",))
    b = Member("t-b", "crates/b", ("t-a", "datafusion", "serde"))
    assert layer_findings([a, b]) == []
    assert len(layer_findings([b, a])) == 1 and "crates/b" in layer_findings([b, a])[0]
    itself = Member("t-c", "crates/c", ("t-c",))
    assert len(layer_findings([itself])) == 1

    assert room_findings([a, b], {"datafusion": {"crates/b"}}) == []
    assert len(room_findings([a, b], {"datafusion": {"crates/a"}})) == 1
    assert len(room_findings([Member("t", "d", ("datafusion-common",))], {"datafusion": set()})) == 1
    assert room_findings([Member("t", "d", ("datafusionish",))], {"datafusion": set()}) == []

    tree = "syn v1.0.0 (proc-macro)\n\nsyn v2.0.0 (*)\n\nlibc v0.2.1\n\nlibc v0.2.1\n"
    assert parse_duplicates(tree) == {"syn": ["v1.0.0", "v2.0.0"]}
    assert duplicate_findings(parse_duplicates(tree), parse_allowed("# why\n\nsyn: macros\n")) == []
    assert len(duplicate_findings(parse_duplicates(tree), {})) == 1
    assert len(duplicate_findings({}, {"syn": "macros"})) == 1
    try:
        parse_allowed("syn\n")
    except ValueError as error:
        assert "line 1" in str(error)
    else:
        raise AssertionError("a line without a reason must be refused")

    assert above([a, b], "b") == ["t-a"]
    assert above([a, b], "a") == []
    print("check_layers: self-test passed")


def main(arguments: list[str]) -> int:
    if arguments == ["--self-test"]:
        self_test()
        return 0
    ordered = members()
    if len(arguments) == 2 and arguments[0] == "--above":
        print(" ".join(f"-p {package}" for package in above(ordered, arguments[1])))
        return 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    tree = cargo("tree", "--workspace", "--locked", "-d", "-e", "normal", "--prefix", "none", "--depth", "0")
    findings = (
        layer_findings(ordered)
        + room_findings(ordered, ROOMS)
        + duplicate_findings(parse_duplicates(tree), parse_allowed(ALLOWED_DUPLICATES.read_text()))
    )
    for finding in findings:
        print(finding)
    if not findings:
        print(f"check_layers: {len(ordered)} members in order, no duplicate without a reason")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
