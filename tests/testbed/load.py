"""Sends requests at a steady rate, without waiting for their answers, and counts what clients see."""

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass

from http1 import fetch

# Requests that are open at once; what is due beyond them is not sent, and counted.
MOST_OPEN = 400


@dataclass(frozen=True)
class Kind:
    """One kind of requests: so many a second, of such a shape."""

    model: str
    rate: float
    key: str = "none"
    stream: bool = True
    prompt_tokens: int = 40
    output_tokens: int = 16
    # Requests that begin with the same prompt share it; the rest of each prompt is its own.
    shared_tokens: int = 0
    deadline_seconds: float = 30.0
    path: str = "/v1/chat/completions"


class Load:
    """Requests of some kinds to one port, from `start` to `end`."""

    def __init__(self, port, kinds, seed):
        self.port, self.kinds, self.random = port, kinds, random.Random(seed)
        self.seen, self.open, self.senders = Counter(), set(), []

    def start(self):
        self.senders = [asyncio.create_task(self.send(kind)) for kind in self.kinds]

    def stop(self):
        """Sends no more; what is open goes on."""
        for task in self.senders:
            task.cancel()

    async def end(self):
        for task in [*self.senders, *self.open]:
            task.cancel()
        await asyncio.gather(*self.senders, *self.open, return_exceptions=True)

    async def send(self, kind):
        while True:
            # Clients do not know of each other, so the gaps are drawn from an exponential distribution.
            await asyncio.sleep(self.random.expovariate(kind.rate))
            if len(self.open) >= MOST_OPEN:
                self.seen["not sent"] += 1
                continue
            task = asyncio.create_task(self.ask(kind))
            self.open.add(task)
            task.add_done_callback(self.open.discard)

    async def ask(self, kind):
        try:
            body = json.dumps(self.question(kind)).encode()
            headers = {"content-type": "application/json", "authorization": f"Bearer {kind.key}"}
            status, answer = await fetch(self.port, "POST", kind.path, kind.deadline_seconds, headers, body)
            # A stream that fails half-way has said 200 already.
            failed = status == 200 and (b'"error"' in answer or b"event: error" in answer)
            self.seen["200 with an error" if failed else str(status)] += 1
        except TimeoutError:
            self.seen["gave up"] += 1
        except (OSError, ValueError):
            self.seen["no answer"] += 1

    async def is_answered(self):
        """Whether one request of each kind is answered well."""
        for kind in self.kinds:
            headers = {"content-type": "application/json", "authorization": f"Bearer {kind.key}"}
            body = json.dumps(self.question(kind)).encode()
            status, _ = await fetch(self.port, "POST", kind.path, kind.deadline_seconds, headers, body)
            if status != 200:
                return False
        return True

    def question(self, kind):
        # The testbed's own tokenizer makes one token of each letter.
        own = max(kind.prompt_tokens - kind.shared_tokens, 0)
        letters = "abcdefghijklmnopqrstuvwxyz"
        prompt = (letters * (kind.shared_tokens // 26 + 1))[: kind.shared_tokens] + "".join(self.random.choices(letters, k=own))
        out = {"model": kind.model, "messages": [{"role": "user", "content": prompt}], "max_tokens": kind.output_tokens}
        return out | {"stream": True, "stream_options": {"include_usage": True}} if kind.stream else out

    def summary(self):
        """What clients saw so far, as in `200 × 118, 500 × 7`; starts anew."""
        text = ", ".join(f"{what} × {count}" for what, count in sorted(self.seen.items()))
        self.seen = Counter()
        return text or "nothing"
