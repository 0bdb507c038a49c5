"""What the checks read about the workspace: its members in order, their direct dependencies, what cargo resolves.

Standard library only, Python 3.10 and later.
"""
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Member:
    """One crate of the workspace."""

    package: str
    folder: str
    """Relative to the root, as the root Cargo.toml lists it."""
    dependencies: tuple[str, ...]
    """Package names of direct dependencies: normal, build and dev alike."""


def member_folders(root_manifest: str) -> list[str]:
    """The workspace's members in the order in which the root Cargo.toml lists them."""
    found = re.search(r"^members\s*=\s*\[(.*?)^\]", root_manifest, re.MULTILINE | re.DOTALL)
    if not found:
        raise ValueError("Cargo.toml: no `members = [` list whose `]` stands at the start of a line")
    lines = (line.split("#", 1)[0] for line in found.group(1).splitlines())
    return re.findall(r'"([^"]+)"', "\n".join(lines))


def members() -> list[Member]:
    """All members in the order of the root Cargo.toml."""
    metadata = json.loads(cargo("metadata", "--no-deps", "--format-version", "1"))
    by_folder = {
        str(Path(package["manifest_path"]).parent.relative_to(ROOT)): package for package in metadata["packages"]
    }
    folders = member_folders((ROOT / "Cargo.toml").read_text())
    if set(folders) != set(by_folder):
        raise ValueError(f"Cargo.toml lists {sorted(folders)}, cargo knows {sorted(by_folder)}")
    return [
        Member(package["name"], folder, tuple(dependency["name"] for dependency in package["dependencies"]))
        for folder, package in ((folder, by_folder[folder]) for folder in folders)
    ]


def cargo(*arguments: str) -> str:
    """Standard output of a cargo command in the root. Ends the check where cargo fails, whose own words are on the
    terminal."""
    done = subprocess.run(["cargo", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"cargo {' '.join(arguments)} failed")
    return done.stdout
