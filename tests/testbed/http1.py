"""A small HTTP/1.1 client for loopback: one request per connection, every wait with a deadline."""

import asyncio
import contextlib

HOST = "127.0.0.1"


async def fetch(port, method, path, deadline, headers=None, body=b""):
    """Answers the status and the body. Raises OSError, TimeoutError, or ValueError for an answer that is not HTTP."""
    async with asyncio.timeout(deadline):
        reader, writer = await asyncio.open_connection(HOST, port)
        try:
            lines = [f"{method} {path} HTTP/1.1", f"host: {HOST}:{port}", "connection: close"]
            lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
            lines.append(f"content-length: {len(body)}")
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
            status = int(head.split(b" ", 2)[1])
            content = await reader.read()
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("the connection ended before an answer") from error
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    chunked = b"transfer-encoding: chunked" in head.lower()
    return status, unchunked(content) if chunked else content


def unchunked(content):
    """The body without the lengths of its chunks. Raises ConnectionError when the last chunk is missing."""
    parts = []
    while True:
        length, found, rest = content.partition(b"\r\n")
        if not found:
            raise ConnectionError("the answer was cut")
        size = int(length.split(b";")[0], 16)
        if size == 0:
            return b"".join(parts)
        parts.append(rest[:size])
        content = rest[size + 2 :]
