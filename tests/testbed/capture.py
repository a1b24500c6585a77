"""Writes what was scraped in the form that tests/captures reads, and the case that goes with it."""

import gzip
import json
import re
from dataclasses import dataclass

HEADING = "# Made by `make testbed`: what was done to each program, and which root causes are right.\ncases:\n"


@dataclass(frozen=True)
class Times:
    """When the program was healthy and when it was not, in Unix seconds; from `settled` on the fault is steady."""

    healthy_from: int
    fault_from: int
    settled: int
    to: int

    def headings(self, crash):
        during = f"# during {self.fault_from} {self.to} settled {self.settled}{' crash' if crash else ''}"
        return f"# before {self.healthy_from} {self.fault_from}\n{during}\n"


def write(path, points, times, crash=False):
    """Writes the samples of both stretches, series after series."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.GzipFile(path, "wb", compresslevel=9, mtime=0) as file:
        file.write(times.headings(crash).encode())
        for name in sorted(points):
            for at, value in points[name]:
                if times.healthy_from <= at <= times.to:
                    file.write(f"{name} {value} {at}\n".encode())


def entry(case, what):
    """The case as it stands in cases.yaml."""
    labels = ", ".join(f"{key}: {value}" for key, value in case["labels"].items())
    return (
        f"  - id: {case['id']}\n    what: {json.dumps(what)}\n    alert: {case['alert']}\n"
        f"    labels: {{ {labels} }}\n    right: [{', '.join(case['right'])}]\n"
    )


def put(path, case, what):
    """Puts the entry into the list, in the place of an older one with the same id."""
    text = path.read_text() if path.exists() else HEADING
    new = entry(case, what)
    old = re.compile(rf"^  - id: {re.escape(case['id'])}\n(?:    .*\n)*", re.MULTILINE)
    text = old.sub(lambda _: new, text) if old.search(text) else text.rstrip("\n") + "\n" + new
    path.write_text(text)
