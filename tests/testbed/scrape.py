"""Scrapes targets as Prometheus does: its labels, its `up`, its rule for labels that are empty or taken."""

import asyncio
import re
import time
from dataclasses import dataclass, field

from http1 import HOST, fetch

SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*$")
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Target:
    """A page of metrics, and the labels that a scrape configuration would give it."""

    job: str
    port: int
    path: str = "/metrics"
    labels: dict = field(default_factory=dict)

    def own_labels(self):
        return {"job": self.job, "instance": f"{HOST}:{self.port}"} | self.labels


def series(name, labels):
    """The series as Prometheus writes it."""
    inner = ",".join(f'{key}="{labels[key]}"' for key in sorted(labels))
    return f"{name}{{{inner}}}"


def samples(page, own):
    """The series of a page in the text format with their values. `own` are the labels of the target."""
    for line in page.splitlines():
        found = SAMPLE.match(line)
        if line.startswith("#") or not found:
            continue
        name, inner, value = found.groups()
        # Start times of counters: Prometheus does not store them either in this format's successor.
        if name.endswith("_created"):
            continue
        labels = {key: text for key, text in LABEL.findall(inner or "") if text}
        labels = {f"exported_{key}" if key in own else key: text for key, text in labels.items()}
        yield series(name, labels | own), value


class Recorder:
    """Scrapes all targets every `interval` seconds, at whole seconds, and keeps every sample."""

    def __init__(self, targets, interval):
        self.targets, self.interval = targets, interval
        self.points = {}
        self.scraped = asyncio.Condition()
        self.last = 0
        self.task = None

    def start(self):
        self.task = asyncio.create_task(self.run())

    async def end(self):
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def run(self):
        while True:
            at = (int(time.time()) // self.interval + 1) * self.interval
            await asyncio.sleep(at - time.time())
            await asyncio.gather(*(self.scrape(target, at) for target in self.targets))
            async with self.scraped:
                self.last = at
                self.scraped.notify_all()

    async def next(self):
        """Waits for the next scrape of all targets and answers its time in Unix seconds."""
        async with self.scraped:
            await self.scraped.wait()
            return self.last

    async def until(self, at):
        """Waits for the first scrape at or after a time and answers its time."""
        while (last := await self.next()) < at:
            pass
        return last

    async def scrape(self, target, at):
        own = target.own_labels()
        begun = time.monotonic()
        found = {}
        try:
            accept = {"accept": "text/plain;version=0.0.4"}
            status, body = await fetch(target.port, "GET", target.path, self.interval * 0.9, accept)
            up = status == 200
            if up:
                found = dict(samples(body.decode(errors="replace"), own))
        except (OSError, ValueError):
            up = False
        found[series("up", own)] = str(int(up))
        found[series("scrape_duration_seconds", own)] = f"{time.monotonic() - begun:.4f}"
        for name, value in found.items():
            self.points.setdefault(name, []).append((at, value))
