"""What the testbed promises without the real programs: `python3 -B -m unittest discover -s tests/testbed`."""

import asyncio
import dataclasses
import gzip
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import unittest
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import capture
from backend import Backend, Behaviour
from errors import TestbedError
from load import Kind, Load
from process import Process, demand_free
from scrape import Recorder, Target, samples


# What no playbook can say yet.
NOT_YET = {"slow-backend"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def table(name):
    return tomllib.loads((HERE / name).read_text())


class Tables(unittest.TestCase):
    def test_every_fault_names_what_its_program_has(self):
        programs = table("programs.toml")
        kind = {field.name for field in dataclasses.fields(Kind)}
        behaviour = {field.name for field in dataclasses.fields(Behaviour)}
        for case in table("faults.toml")["case"]:
            with self.subTest(case["id"]):
                program, fault = programs[case["program"]], case.get("fault", {})
                self.assertLessEqual(set(fault), {"backends", "signals", "load"})
                self.assertLessEqual(set(fault.get("backends", {})), set(program.get("backends", {})))
                for changes in fault.get("backends", {}).values():
                    self.assertLessEqual(set(changes), behaviour)
                for load in [*case.get("load", []), *fault.get("load", [])]:
                    self.assertLessEqual(set(load), kind)
                self.assertTrue(case["source"].startswith("https://"))
                self.assertEqual(bool(case["right"]), bool(fault), "a case has a fault and right answers, or neither")

    def test_right_answers_are_causes_of_the_playbooks(self):
        playbooks = HERE.parents[1] / "playbooks"
        files = [path for path in [*playbooks.glob("symptoms/*.yaml"), *playbooks.glob("mechanisms/*.yaml"), *playbooks.glob("causes/*.yaml")] if not path.name.endswith(".test.yaml")]
        known = {path.stem for path in files} | {name for path in files for name in re.findall(r"(?m)^  - id: (\S+)$", path.read_text())}
        for case in table("faults.toml")["case"]:
            self.assertLessEqual(set(case["right"]) - NOT_YET, known, case["id"])

    def test_ids_are_unique(self):
        ids = [case["id"] for case in table("faults.toml")["case"]]
        self.assertEqual(len(ids), len(set(ids)))


class Pages(unittest.TestCase):
    def test_labels_are_those_that_prometheus_would_store(self):
        page = '# HELP a b\na{x="y",empty="",job="own"} 2.5\nb_bucket{le="+Inf"} 3 1700000000000\na_created{x="y"} 1\n'
        found = dict(samples(page, Target("j", 7, labels={"pod": "p"}).own_labels()))
        own = 'instance="127.0.0.1:7",job="j"'
        self.assertEqual(found, {f'a{{exported_job="own",{own},pod="p",x="y"}}': "2.5", f'b_bucket{{{own},le="+Inf",pod="p"}}': "3"})

    def test_a_capture_has_its_headings_and_only_the_two_stretches(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "data/x.om.gz"
            capture.write(path, {'a{b="c"}': [(9, "0"), (10, "1"), (30, "2"), (31, "3")]}, capture.Times(10, 20, 25, 30))
            self.assertEqual(
                gzip.decompress(path.read_bytes()).decode(),
                '# before 10 20\n# during 20 30 settled 25\na{b="c"} 1 10\na{b="c"} 2 30\n',
            )

    def test_a_case_takes_the_place_of_its_older_form(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "cases.yaml"
            case = {"id": "p.one", "alert": "A", "labels": {"job": "p"}, "right": ["r"]}
            capture.put(path, case, "first")
            capture.put(path, case | {"id": "p.two"}, "other")
            capture.put(path, case, 'a "new" one')
            text = path.read_text()
            self.assertEqual(text.count("- id: p.one\n"), 1)
            self.assertIn('- id: p.one\n    what: "a \\"new\\" one"\n    alert: A\n    labels: { job: p }\n    right: [r]\n', text)
            self.assertLess(text.index("p.one"), text.index("p.two"))


class Loopback(unittest.IsolatedAsyncioTestCase):
    async def test_clients_see_what_the_back_end_was_told(self):
        backend = Backend(free_port())
        await backend.start()
        self.addAsyncCleanup(backend.end)
        kinds = [Kind(model="m", rate=1.0, output_tokens=2, stream=stream, deadline_seconds=1.0) for stream in (True, False)]
        load = Load(backend.port, kinds, seed=1)
        self.assertTrue(await load.is_answered())
        for changes, expected in [
            ({"answer": 503}, "503"),
            ({"answer": 200, "cut": True}, "no answer"),
            ({"cut": False, "hang": True}, "gave up"),
            ({"refuse": True}, "no answer"),
        ]:
            await backend.behave(**changes)
            await load.ask(kinds[0])
            self.assertEqual(load.summary(), f"{expected} × 1", changes)

    async def test_a_page_that_does_not_answer_is_down(self):
        recorder = Recorder([Target("j", free_port())], interval=1)
        recorder.start()
        self.addAsyncCleanup(recorder.end)
        at = await recorder.next()
        self.assertEqual(recorder.points[next(name for name in recorder.points if name.startswith("up{"))], [(at, "0")])

    async def test_a_taken_port_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with self.assertRaisesRegex(TestbedError, f"port {taken.getsockname()[1]} is taken"):
                demand_free(taken.getsockname()[1])

    async def test_a_program_that_ends_at_its_start_shows_its_last_lines(self):
        with tempfile.TemporaryDirectory() as directory:
            program = "print('no such option'); raise SystemExit(3)"
            process = Process("proxy", [sys.executable, "-c", program], Path(directory) / "log")
            await process.start()
            self.addAsyncCleanup(process.end)
            with self.assertRaisesRegex(TestbedError, "(?s)proxy ended with status 3 .*no such option"):
                await process.ready(never, 30)

    async def test_a_program_is_ended_with_its_children(self):
        with tempfile.TemporaryDirectory() as directory:
            log = Path(directory) / "log"
            program = "import subprocess, time; print(subprocess.Popen(['sleep', '600']).pid, flush=True); time.sleep(600)"
            process = Process("parent", [sys.executable, "-c", program], log)
            await process.start()

            async def has_a_child():
                return log.read_text().strip().isdigit()

            await process.ready(has_a_child, 30)
            process.signal("STOP")
            await process.end()
            child = int(log.read_text())
            await ended(child)


class Interrupts(unittest.TestCase):
    def test_an_interrupt_ends_what_was_started(self):
        program = (
            "import asyncio, sys; sys.path.insert(0, sys.argv[1])\n"
            "from pathlib import Path; from process import Process\n"
            "async def main():\n"
            "    process = Process('sleeper', ['sleep', '600'], Path(sys.argv[2]))\n"
            "    try:\n"
            "        await process.start(); print(process.child.pid, flush=True); await asyncio.sleep(600)\n"
            "    finally:\n"
            "        await process.end()\n"
            "asyncio.run(main())\n"
        )
        with tempfile.TemporaryDirectory() as directory:
            argv = [sys.executable, "-B", "-c", program, str(HERE), f"{directory}/log"]
            with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as testbed:
                sleeper = int(testbed.stdout.readline())
                testbed.send_signal(signal.SIGINT)
                testbed.wait(timeout=30)
            asyncio.run(ended(sleeper))


async def never():
    return False


async def ended(pid):
    """Waits until a process is gone, or only its entry is left."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except (ProcessLookupError, FileNotFoundError):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"process {pid} still runs")


if __name__ == "__main__":
    unittest.main()
