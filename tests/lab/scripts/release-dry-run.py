"""Plays the release workflow on this machine, twice, and compares the files of both releases.

Each release has a clone of HEAD, a cargo home and a path of its own. The scripts of .github/workflows/release.yaml run as they stand there,
with the commands that would reach registries or GitHub replaced by ones that print their arguments. Not played: the tests,
which `make test` runs; the image, for which there is `make image-check`; the chart's push, which `make kubernetes-check` does; and actions, whose inputs `make release-check` lints.
Needs two release builds of time, and crates.io.
"""

import io
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile

from ruamel.yaml import YAML

ROOT = pathlib.Path(__file__).resolve().parents[3]
WORK = ROOT / "target" / "release-dry-run"
# What the replaced commands answer: the workflow reads a digest from docker alone.
ANSWERS = {"docker": f"sha256:{'0' * 64}", "gh": "", "apt-get": "", "helm": None}
SECONDS = 3600
PROGRAM = "llm-diagnose"
# promql-parser's build script writes two equal entries of a table in any order; the linker's build id follows from it.
TABLE = 32


def stand_ins(directory):
    """Commands that only print; a program that this machine has, and that stays on it, is used."""
    directory.mkdir(parents=True)
    for name, answer in ANSWERS.items():
        if answer is None and shutil.which(name):
            continue
        script = directory / name
        script.write_text(f'#!/bin/sh\necho "would run: {name} $*" >&2\necho "{answer or ""}"\n')
        script.chmod(0o755)


def played(step):
    return "run" in step and ".ci/run" not in step["run"] and not any(word in step["run"] for word in ("docker build ", "helm push "))


def play(job, home, environment):
    """Runs the scripts of a job as GitHub does: each in bash, with what earlier ones wrote to GITHUB_ENV and GITHUB_OUTPUT."""
    outputs = {}
    known = {"github.ref_name": environment["TAG"], "github.sha": environment["GITHUB_SHA"]}
    for step in filter(played, job["steps"]):
        variables = environment | {name: str(value) for name, value in step.get("env", {}).items()}
        files = {name: home / name.lower() for name in ("GITHUB_ENV", "GITHUB_OUTPUT")}
        for file in files.values():
            file.write_text("")

        def value(text):
            text = re.sub(r"\$\{\{ steps\.([\w-]+)\.outputs\.([\w-]+) \}\}", lambda m: outputs[m[1]][m[2]], text)
            return re.sub(r"\$\{\{ ([^}]+) \}\}", lambda m: known.get(m[1], "of-github"), text)

        variables = {name: value(text) for name, text in variables.items()} | {k: str(v) for k, v in files.items()}
        print(f"· {step.get('name', step['run'].splitlines()[0])}", flush=True)
        done = subprocess.run(["bash", "-eo", "pipefail", "-c", value(step["run"])], cwd=home / "src", env=variables,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=SECONDS)
        if done.returncode != 0:
            sys.exit(f"release-dry-run: a step failed with {done.returncode}:\n{step['run']}\n{done.stderr[-4000:]}")
        read = {name: dict(line.split("=", 1) for line in file.read_text().splitlines()) for name, file in files.items()}
        environment |= read["GITHUB_ENV"]
        outputs[step.get("id", "")] = read["GITHUB_OUTPUT"]


def release(workflow, name):
    """Makes one release, and returns its checkout."""
    home = WORK / name
    home.mkdir(parents=True)
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, home / "src"], check=True, timeout=SECONDS)
    commit = subprocess.check_output(["git", "-C", home / "src", "rev-parse", "HEAD"], text=True).strip()
    version = re.search(r'^version = "(.+)"', (home / "src" / "Cargo.toml").read_text(), re.M)[1]
    stand_ins(home / "bin")
    environment = {
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        # rustup finds the toolchain of this machine from its own home.
        "HOME": str(home), "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(pathlib.Path.home() / ".rustup")),
        "CARGO_HOME": str(home / "cargo"),
        "GITHUB_WORKSPACE": str(home / "src"), "GITHUB_SHA": commit, "LLM_DIAGNOSE_COMMIT": commit, "IMAGE": "ghcr.io/of/github",
        "TAG": f"v{version}", "ARCHITECTURE": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
    }
    for name in ("test", "build", "publish"):
        play(workflow["jobs"][name], home, environment)
    shutil.rmtree(home / "cargo")
    return home / "src"


def files(source):
    """The files of a release, those inside its packages one by one, by name."""
    found = {}
    for path in sorted((source / "release").iterdir()):
        packed = path.name.endswith(".tar.gz") and path.read_bytes()
        if path.suffix == ".deb":
            packed = subprocess.check_output(["dpkg-deb", "--fsys-tarfile", path], timeout=SECONDS)
        if packed:
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                members = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
            found |= {f"{path.name}: {name}": data for name, data in members.items()}
        elif path.name != "SHA256SUMS":
            found[path.name] = path.read_bytes()
    return found


def main():
    workflow = YAML(typ="safe").load(ROOT / ".github" / "workflows" / "release.yaml")
    shutil.rmtree(WORK, ignore_errors=True)
    # Paths of unlike lengths: what depends on them differs.
    first, second = (release(workflow, name) for name in ("first", "a-second-one"))
    programs = [(source / "target" / "release" / PROGRAM).read_bytes() for source in (first, second)]
    apart = abs(len(programs[0]) - len(programs[1])) + sum(a != b for a, b in zip(*programs))
    one, other = files(first), files(second)
    unlike = [name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name)]
    print(f"{len(one)} files, {len(unlike)} of them differ: {', '.join(unlike) or 'none'}")
    print(f"{apart} of {len(programs[0])} bytes of the program differ")
    if apart > TABLE or any(not name.endswith(f"/{PROGRAM}") for name in unlike):
        sys.exit("release-dry-run: two releases of one commit differ")


main()
