#!/usr/bin/env python3
"""Checks that DataFusion and everything below it is compiled once for command, tests and Python package.

    scripts/check_one_build.py [--self-test]

Cargo unites features over the packages and kinds of dependency that one invocation selects. Where two selections give a
crate different features, that crate and all that stands on it is built again: minutes for DataFusion. So every
third-party crate must get the same features in each selection below. A finding is mended by naming the missing feature
in [workspace.dependencies] for a crate that every selection contains.
"""
import re
import sys

from workspace_manifest import cargo

# What the Makefile builds in the release profile. Host-side crates (macros, build scripts) are compiled in seconds:
# left out.
EVERYTHING = ("--workspace", "-e", "normal,no-proc-macro")
SELECTIONS = {
    "the tests": ("--workspace", "-e", "normal,dev,no-proc-macro"),
    "the Python package": ("-p", "thermocline-python", "-e", "normal,no-proc-macro"),
}


def parse(tree: str) -> dict[str, str]:
    """Package and version -> features, from lines `name vVERSION … [features]`; members (with a path) are left out."""
    found = {}
    for line in tree.splitlines():
        crate = re.match(r"(\S+ v\S+)( \(proc-macro\))? \[(.*)\]", line)
        if crate:
            found[crate.group(1)] = crate.group(3)
    return found


def findings(everything: dict[str, str], name: str, selection: dict[str, str]) -> list[str]:
    """One line for each crate whose features depend on the selection."""
    return [
        f"{crate}: [{features}] for {name}, [{everything[crate]}] for the workspace"
        for crate, features in sorted(selection.items())
        if crate in everything and everything[crate] != features
    ]


def resolve(selection: tuple[str, ...]) -> dict[str, str]:
    """What cargo resolves for a selection, as `parse` returns it."""
    return parse(cargo("tree", "--locked", "--prefix", "none", "-f", "{p} [{f}]", *selection))


def self_test() -> None:
    """Plain assertions on small inputs."""
    tree = "libc v0.2.1 [default,std]\nours v0.1.0 (/a/b) [x]\nderive v1.0.0 (proc-macro) []\nlibc v0.2.1 [default,std] (*)\n"
    parsed = parse(tree)
    assert parsed == {"libc v0.2.1": "default,std", "derive v1.0.0": ""}
    assert findings(parsed, "a test", parsed) == []
    assert findings(parsed, "a test", {"only-here v1.0.0": "x"}) == []
    assert len(findings(parsed, "a test", {"libc v0.2.1": "default"})) == 1
    print("check_one_build: self-test passed")


def main(arguments: list[str]) -> int:
    if arguments == ["--self-test"]:
        self_test()
        return 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    everything = resolve(EVERYTHING)
    found = [line for name, selection in SELECTIONS.items() for line in findings(everything, name, resolve(selection))]
    for line in found:
        print(line)
    if not found:
        print(f"check_one_build: {len(everything)} crates, the same features everywhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
