"""A fake back end with OpenAI's API, whose behaviour can be changed while it runs."""

import asyncio
import contextlib
import json
from dataclasses import dataclass, replace

from http1 import HOST

# Seconds from token to token.
TOKEN_INTERVAL = 0.02
REASONS = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "NotFoundError",
    429: "rate_limit_error", 500: "server_error", 502: "bad_gateway", 503: "overloaded_error", 504: "timeout",
}


@dataclass(frozen=True)
class Behaviour:
    """How every request is answered: with a status, after some seconds, never, or cut after the first token."""

    answer: int = 200
    delay_seconds: float = 0.05
    hang: bool = False
    cut: bool = False
    refuse: bool = False


class Backend:
    """Listens on loopback from `start` to `end`; while it refuses, nobody listens."""

    def __init__(self, port):
        self.port, self.behaviour, self.server, self.open = port, Behaviour(), None, set()

    async def start(self):
        self.server = await asyncio.start_server(self.serve, HOST, self.port)

    async def behave(self, **changes):
        """Raises TypeError for a behaviour that does not exist."""
        self.behaviour = replace(self.behaviour, **changes)
        if self.behaviour.refuse:
            await self.end()

    async def end(self):
        if self.server is None:
            return
        self.server.close()
        for task in self.open:
            task.cancel()
        await asyncio.gather(*self.open, return_exceptions=True)
        await self.server.wait_closed()
        self.server = None

    async def serve(self, reader, writer):
        task = asyncio.current_task()
        self.open.add(task)
        try:
            await self.answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # The client went away, or the back end ends.
            pass
        finally:
            self.open.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def answer(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = next((int(line.split(":")[1]) for line in head.split("\r\n") if line.startswith("content-length:")), 0)
        body = await reader.readexactly(length)
        how = self.behaviour
        if how.hang:
            await asyncio.Event().wait()
        await asyncio.sleep(how.delay_seconds)
        if how.answer != 200:
            error = {"message": f"the back end was told to answer {how.answer}", "type": REASONS.get(how.answer, "error"), "code": how.answer}
            return await self.send(writer, how.answer, json.dumps({"error": error}))
        asked = json.loads(body or b"{}")
        if "messages" not in asked:
            return await self.send(writer, 200, json.dumps({"object": "list", "data": [{"id": "tiny", "object": "model"}]}))
        tokens = int(asked.get("max_tokens") or 16)
        prompt = sum(len(str(message.get("content"))) for message in asked["messages"])
        usage = {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
        common = {"id": "chatcmpl-1", "created": 1, "model": asked.get("model", "tiny")}
        if not asked.get("stream"):
            await asyncio.sleep(tokens * TOKEN_INTERVAL)
            choice = {"index": 0, "message": {"role": "assistant", "content": "a " * tokens}, "finish_reason": "stop"}
            whole = common | {"object": "chat.completion", "choices": [choice], "usage": usage}
            return await self.send(writer, 200, json.dumps(whole))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n")
        common["object"] = "chat.completion.chunk"
        for token in range(tokens):
            delta = {"index": 0, "delta": {"role": "assistant", "content": "a "}, "finish_reason": None}
            await self.event(writer, json.dumps(common | {"choices": [delta]}))
            if how.cut and token == 1:
                return None
            await asyncio.sleep(TOKEN_INTERVAL)
        last = {"index": 0, "delta": {}, "finish_reason": "stop"}
        await self.event(writer, json.dumps(common | {"choices": [last], "usage": usage}))
        await self.event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")
        return await writer.drain()

    @staticmethod
    async def send(writer, status, text):
        content = text.encode()
        head = f"HTTP/1.1 {status} {REASONS.get(status, 'OK')}\r\ncontent-type: application/json\r\nconnection: close\r\n"
        writer.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        await writer.drain()

    @staticmethod
    async def event(writer, text):
        content = f"data: {text}\n\n".encode()
        writer.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        await writer.drain()
