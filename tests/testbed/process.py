"""Starts programs, waits until they are ready, and ends them with all their children."""

import asyncio
import contextlib
import os
import signal
import socket
from pathlib import Path

from errors import TestbedError
from http1 import HOST

LAST_LINES = 20
# Seconds for a program to end by itself after SIGTERM.
GRACE = 5


def demand_free(port):
    """Raises when another program listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise TestbedError(f"port {port} is taken ({error.strerror}): `ss -ltnp 'sport = :{port}'` names the program to end") from error


class Process:
    """One program with its log. `end` also ends what the program started."""

    def __init__(self, name, argv, log, env=None, cwd=None):
        self.name, self.argv, self.log, self.cwd = name, [str(word) for word in argv], log, cwd
        self.env = os.environ | (env or {})
        self.child = None

    async def start(self):
        with self.log.open("wb") as log:
            try:
                # A session of its own: its children can be ended with it, and Ctrl-C reaches only the testbed.
                self.child = await asyncio.create_subprocess_exec(
                    *self.argv, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                    env=self.env, cwd=self.cwd, start_new_session=True,
                )
            except OSError as error:
                raise TestbedError(f"{self.name} does not start: {self.argv[0]}: {error.strerror}") from error

    async def ready(self, check, deadline):
        """Waits until `check` answers true. Raises when the program ends before, or is not ready in `deadline` seconds."""
        try:
            async with asyncio.timeout(deadline):
                while not await self.answers(check):
                    if self.child.returncode is not None:
                        raise self.failed(f"ended with status {self.child.returncode} while it started")
                    await asyncio.sleep(0.5)
        except TimeoutError as error:
            raise self.failed(f"was not ready after {deadline} s") from error

    @staticmethod
    async def answers(check):
        try:
            return await check()
        except (OSError, ValueError):
            return False

    def failed(self, what):
        lines = self.log.read_text(errors="replace").splitlines()[-LAST_LINES:]
        return TestbedError("\n  ".join([f"{self.name} {what}. The end of {self.log}:", *lines]))

    def signal(self, name, part=""):
        """Sends a signal such as `KILL` to the program with its children, or to those whose command line has `part`."""
        number = signal.Signals[f"SIG{name}"]
        if not part:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, number)
            return
        members = dict(self.members())
        wanted = [pid for pid, words in members.items() if part in words]
        if not wanted:
            raise TestbedError(f"{self.name} has no process with `{part}` in its command line: {list(members.values())}")
        for pid in wanted:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def members(self):
        """The processes of this session with their command lines, as Linux tells them."""
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                pid = int(entry.name)
                if os.getsid(pid) == self.child.pid:
                    yield pid, (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")

    async def end(self):
        if self.child is None:
            return
        self.signal("CONT")
        self.signal("TERM")
        try:
            async with asyncio.timeout(GRACE):
                await self.child.wait()
        except TimeoutError:
            pass
        finally:
            self.signal("KILL")
        await self.child.wait()
