"""Prints what the program is built from: a CycloneDX 1.5 document of the crates in Cargo.lock that this platform uses.

Crates that only tests need are left out. The same lock file gives the same document. `cargo` reads what the build has
downloaded.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = "llm-diagnose"


def cargo(*arguments):
    program = os.environ.get("CARGO", "cargo")
    done = subprocess.run([program, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"sbom: {program} {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout


def reference(package):
    """The package URL of a crate of a registry; the name of one of this project, which no registry has."""
    if package["source"] is None:
        return f"{PROGRAM}:{package['name']}"
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, checksums):
    entry = {"type": "library", "bom-ref": reference(package), "name": package["name"], "version": package["version"]}
    if package["license"]:
        # A slash is the old way to write OR.
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ").replace("  ", " ")}]
    if package["source"] is not None:
        entry["purl"] = reference(package)
        entry["hashes"] = [{"alg": "SHA-256", "content": checksums[package["name"], package["version"]]}]
    return entry


def main():
    host = next(line.removeprefix("host: ") for line in cargo("-vV").splitlines() if line.startswith("host: "))
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--locked", "--filter-platform", host))
    lock = (ROOT / "Cargo.lock").read_text()
    checksums = {(one["name"], one["version"]): one.get("checksum") for one in tomllib.loads(lock)["package"]}
    packages = {package["id"]: package for package in metadata["packages"]}
    uses = {}
    for node in metadata["resolve"]["nodes"]:
        built = (dep["pkg"] for dep in node["deps"] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"]))
        uses[node["id"]] = sorted(built, key=lambda one: reference(packages[one]))
    root = next(package["id"] for package in metadata["packages"] if package["name"] == PROGRAM)
    reached, waiting = {root}, collections.deque([root])
    while waiting:
        new = [one for one in uses[waiting.popleft()] if one not in reached]
        reached.update(new)
        waiting.extend(new)
    inside = sorted(reached, key=lambda one: reference(packages[one]))
    program = component(packages[root], checksums) | {"type": "application"}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, host + lock)}",
        "version": 1,
        "metadata": {"component": program, "properties": [{"name": "cargo:target", "value": host}]},
        "components": [component(packages[one], checksums) for one in inside if one != root],
        "dependencies": [
            {"ref": reference(packages[one]), "dependsOn": [reference(packages[used]) for used in uses[one]]}
            for one in inside
        ],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
