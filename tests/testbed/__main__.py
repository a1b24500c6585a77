"""Starts real programs, breaks them on purpose, and writes captures of what their metrics say: `make testbed`."""

import sys

if sys.version_info < (3, 11):
    sys.exit(f"testbed: it needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}")

import argparse
import asyncio
import shutil
import signal
import time
import tomllib
from pathlib import Path

import capture
import install
import model
from capture import Times
from errors import TestbedError
from fleet import HERE, START_DEADLINE, Fleet
from load import Kind, Load
from scrape import Recorder

ROOT = HERE.parents[1] / "target/testbed"
# Seconds of load before the healthy stretch begins: first requests are slower than others.
WARM_UP = 12
DEFAULTS = {"healthy_seconds": 30, "fault_seconds": 45, "settle_seconds": 20}
# Seconds beyond the planned ones after which a case is given up.
SLACK = 120


def options():
    parser = argparse.ArgumentParser(prog="testbed", description=__doc__)
    parser.add_argument("--only", default="", help="only cases whose id has this in it")
    parser.add_argument("--engine", help="only this program's cases; needed for those that are large to install")
    parser.add_argument("--version", action="append", default=[], metavar="PROGRAM=VERSION", help="another version than the pinned one")
    parser.add_argument("--into", type=Path, default=ROOT / "captures", help="where data/ and cases.yaml are written")
    parser.add_argument("--list", action="store_true", help="prints the cases and ends")
    return parser.parse_args()


def table(name):
    with (HERE / name).open("rb") as file:
        return tomllib.load(file)


def chosen(cases, programs, asked):
    """The cases to run. Raises when there are none, or a program does not exist."""
    if asked.engine and asked.engine not in programs:
        raise TestbedError(f"there is no program `{asked.engine}`; there are {', '.join(programs)}")
    wanted = [asked.engine] if asked.engine else [name for name, program in programs.items() if not program.get("on_request")]
    found = [case for case in cases if case["program"] in wanted and asked.only in case["id"]]
    if not found:
        raise TestbedError(f"no case of {', '.join(wanted)} has `{asked.only}` in its id; `python3 tests/testbed --list` names them")
    return found


def set_versions(programs, asked):
    for word in asked.version:
        name, _, version = word.partition("=")
        if name not in programs or not version:
            raise TestbedError(f"`{word}` is not PROGRAM=VERSION with one of {', '.join(programs)}")
        programs[name]["version"] = version


async def record(case, program, into):
    """Runs one case and writes its capture; answers what clients saw before and during the fault."""
    bin = await install.environment(ROOT, case["program"], program)
    run = ROOT / "run" / case["id"]
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    model.write(run / "model")
    plan = DEFAULTS | {key: case[key] for key in DEFAULTS if key in case}
    fault = case.get("fault", {})
    fleet = Fleet(program, bin, run, run / "model", case.get("arguments", {}))
    recorder = Recorder(fleet.targets, program["scrape_seconds"])
    loads = [Load(fleet.port, [Kind(**kind) for kind in case.get("load", program["load"])], seed=1)]
    if "load" in fault:
        loads.append(Load(fleet.port, [Kind(**kind) for kind in fault["load"]], seed=2))
    try:
        async with asyncio.timeout(2 * START_DEADLINE + WARM_UP + sum(plan.values()) + SLACK):
            await fleet.start()
            await fleet.serves(loads[0].is_answered)
            recorder.start()
            loads[0].start()
            healthy_from = await recorder.until(time.time() + WARM_UP)
            loads[0].summary()
            fault_from = await recorder.until(healthy_from + plan["healthy_seconds"])
            before = loads[0].summary()
            await fleet.apply(fault)
            if len(loads) > 1:
                loads[0].stop()
                loads[1].start()
            to = await recorder.until(fault_from + plan["fault_seconds"])
            during = loads[-1].summary()
    except TimeoutError as error:
        raise TestbedError(f"{case['id']} took too long; the logs are in {run}") from error
    finally:
        for load in loads:
            await load.end()
        await recorder.end()
        await fleet.end()
    times = Times(healthy_from, fault_from, fault_from + plan["settle_seconds"], to)
    file = into / "data" / f"{case['id']}.om.gz"
    capture.write(file, recorder.points, times, case.get("crash", False))
    capture.put(into / "cases.yaml", case, f"{program['title']} {program['version']}: {case['what']}")
    print(f"  {file}: {len(recorder.points)} series, {file.stat().st_size // 1000} kB", flush=True)
    print(f"  clients saw before: {before}\n  clients saw during: {during}", flush=True)


async def run(asked):
    programs = table("programs.toml")
    set_versions(programs, asked)
    cases = table("faults.toml")["case"]
    if asked.list:
        for case in cases:
            print(f"{case['id']}: {case['what']}")
        return 0
    task = asyncio.current_task()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    failed = []
    for case in chosen(cases, programs, asked):
        print(f"{case['id']}: {case['what']}", flush=True)
        try:
            await record(case, programs[case["program"]], asked.into)
        except TestbedError as error:
            print(f"  failed: {error}", file=sys.stderr, flush=True)
            failed.append(case["id"])
    if failed:
        raise TestbedError(f"no capture of {', '.join(failed)}")
    return 0


def main():
    try:
        return asyncio.run(run(options()))
    except TestbedError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("testbed: interrupted; everything that it started is ended", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
