"""The processes and fake back ends of one case: started together, broken on purpose, ended together."""

import asyncio
from pathlib import Path

from backend import Backend
from errors import TestbedError
from http1 import fetch
from process import Process, demand_free
from scrape import Target

HERE = Path(__file__).parent
# Seconds until a process answers, and until it serves the model.
START_DEADLINE = 180


class Fleet:
    """`more` are arguments that a case adds, by the name of a process."""

    def __init__(self, program, bin, run, model, more):
        self.backends = {name: Backend(port) for name, port in program.get("backends", {}).items()}
        self.processes, self.targets, self.ready = {}, [], {}
        for wanted in program["processes"]:
            for number in range(1, wanted.get("count", 1) + 1):
                port = wanted["port"] + number - 1
                places = {"bin": bin, "here": HERE, "run": run, "model": model, "port": port, "number": number}
                name = wanted["name"] if wanted.get("count", 1) == 1 else f"{wanted['name']}-{number}"
                argv = [word.format(**places) for word in wanted["command"]]
                argv += more.get(name, more.get(wanted["name"], []))
                env = {key: value.format(**places) for key, value in (program.get("env", {}) | wanted.get("env", {})).items()}
                labels = {key: value.format(**places) for key, value in wanted.get("labels", {}).items()}
                self.processes[name] = Process(name, argv, run / f"{name}.log", env, run)
                self.targets.append(Target(wanted["job"], port, wanted.get("page", "/metrics"), labels))
                self.ready[name] = (port, wanted["ready"])
        unknown = set(more) - {name.rstrip("-0123456789") for name in self.processes} - set(self.processes)
        if unknown:
            raise TestbedError(f"there is no process {', '.join(sorted(unknown))}; there are {', '.join(self.processes)}")

    @property
    def port(self):
        """Where clients send their requests: the first process."""
        return self.targets[0].port

    async def start(self):
        for port in [*(target.port for target in self.targets), *(backend.port for backend in self.backends.values())]:
            demand_free(port)
        for backend in self.backends.values():
            await backend.start()
        for process in self.processes.values():
            await process.start()
        await asyncio.gather(*(process.ready(self.answers(*self.ready[name]), START_DEADLINE) for name, process in self.processes.items()))

    async def serves(self, ask):
        """Waits until a request is answered well."""
        first = next(iter(self.processes.values()))
        await first.ready(ask, START_DEADLINE)

    @staticmethod
    def answers(port, path):
        async def check():
            status, _ = await fetch(port, "GET", path, 5)
            return status == 200

        return check

    async def apply(self, fault):
        """Changes back ends and sends signals. Raises for a name that does not exist."""
        for name, changes in fault.get("backends", {}).items():
            await self.member(self.backends, name).behave(**changes)
        for name, signal in fault.get("signals", {}).items():
            process, _, part = name.partition("/")
            self.member(self.processes, process).signal(signal, part)

    @staticmethod
    def member(members, name):
        if name not in members:
            raise TestbedError(f"a fault names `{name}`; there are {', '.join(members) or 'none'}")
        return members[name]

    async def end(self):
        await asyncio.gather(*(process.end() for process in self.processes.values()))
        for backend in self.backends.values():
            await backend.end()
