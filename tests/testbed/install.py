"""Installs a program into a virtual environment of its own, once for each version."""

import asyncio
import json
import shutil
import sys

from errors import TestbedError

# Seconds for one installation.
DEADLINE = 900
LAST_LINES = 12
# Wheels only: a source package would need compilers, and longer than a minute.
WHEELS = ["--only-binary", ":all:"]
# What pip is told for each list of a program's packages.
OPTIONS = {"packages": WHEELS, "packages_alone": [*WHEELS, "--no-deps"]}


async def environment(root, name, program):
    """Answers the directory of the installed programs, and installs them before if needed."""
    directory = root / f"{name}-{program['version']}"
    wanted = {key: [package.format(version=program["version"]) for package in program.get(key, [])] for key in OPTIONS}
    # Written last, so that an installation that was cut short is made anew.
    done = directory / "packages.json"
    if done.exists() and json.loads(done.read_text()) == wanted:
        return directory / "bin"
    print(f"installing {' '.join(sum(wanted.values(), []))} into {directory}", flush=True)
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    await run([sys.executable, "-m", "venv", directory], "python3 needs venv (`apt-get install python3-venv`)")
    pip = [directory / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--retries", "1"]
    index = program.get("index")
    pip += ["--extra-index-url", index] if index else []
    sources = f"PyPI or a mirror (PIP_INDEX_URL){f' and {index}' if index else ''}"
    for key, packages in wanted.items():
        if packages:
            await run([*pip, *OPTIONS[key], *packages], f"it needs {sources}, and a version that exists")
    done.write_text(json.dumps(wanted))
    return directory / "bin"


async def run(argv, way_out):
    words = [str(word) for word in argv]
    child = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
    try:
        async with asyncio.timeout(DEADLINE):
            output, _ = await child.communicate()
    except TimeoutError as error:
        raise TestbedError(f"`{' '.join(words)}` took longer than {DEADLINE} s: {way_out}") from error
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode != 0:
        said = output.decode(errors="replace").splitlines()
        lines = ([line for line in said if line.startswith("ERROR")] or said)[-LAST_LINES:]
        raise TestbedError("\n  ".join([f"`{' '.join(words)}` failed; {way_out}. It said:", *lines]))
