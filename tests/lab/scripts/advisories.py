"""Writes tests/fixtures/advisories.json: what RustSec's database says of the crates in Cargo.lock.

Only facts are copied: ids, crates, versions, the kind. An argument names a clone of the database (a work tree or a git
directory); without one it is cloned into target/, which needs the network.
"""

import json
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[3]
DATABASE = "https://github.com/RustSec/advisory-db"
OUTPUT = ROOT / "tests/fixtures/advisories.json"


def git(clone, *arguments):
    done = subprocess.run(["git", "-C", str(clone), *arguments], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"advisories: git {arguments[0]} in {clone} failed: {done.stderr.strip()}")
    return done.stdout


def cloned():
    clone = ROOT / "target/advisory-db"
    if clone.exists():
        git(clone, "fetch", "--depth", "1", "origin", "HEAD")
        git(clone, "update-ref", "HEAD", "FETCH_HEAD")
    else:
        git(ROOT, "clone", "--bare", "--depth", "1", DATABASE, str(clone))
    return clone


def advisory(text, path):
    """The advisory in a Markdown file, whose first block is TOML; None for one that was withdrawn."""
    lines = text.splitlines()
    if not lines or lines[0] != "```toml":
        sys.exit(f"advisories: {path} does not begin with a block of TOML")
    entry = tomllib.loads("\n".join(lines[1 : lines.index("```", 1)]))
    head, versions = entry["advisory"], entry.get("versions", {})
    if "withdrawn" in head:
        return None
    return {
        "id": head["id"],
        "package": head["package"],
        "kind": head.get("informational", "vulnerability"),
        "patched": versions.get("patched", []),
        "unaffected": versions.get("unaffected", []),
    }


def main():
    clone = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else cloned()
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    names = {package["name"] for package in locked if "source" in package}
    paths = git(clone, "ls-tree", "-r", "--name-only", "HEAD", "crates/").split()
    if not paths:
        sys.exit(f"advisories: {clone} has no crates/: name a clone of {DATABASE}")
    found = [advisory(git(clone, "show", f"HEAD:{path}"), path) for path in paths if path.split("/")[1] in names]
    found = sorted(filter(None, found), key=lambda one: (one["package"], one["id"]))
    commit, date = git(clone, "log", "-1", "--format=%H %cs").split()
    head = {"database": DATABASE, "commit": commit, "date": date}
    # One line for each, so that a refresh is read in a diff.
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    rows = ",\n".join("    " + json.dumps(one) for one in found)
    OUTPUT.write_text("{\n" + "\n".join(lines) + '\n  "advisories": [\n' + rows + "\n  ]\n}\n")
    print(f"{len(found)} advisories of {len(names)} crates, of the database as of {date}")


if __name__ == "__main__":
    main()
