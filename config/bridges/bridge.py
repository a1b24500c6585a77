"""Shared by the bridges beside it: takes the signed calls of llm-diagnose, and hands on what is new.

Environment: SECRET_FILE, the file that `key_file` of the pager names. Standard library alone.
"""

import base64
import collections
import hashlib
import hmac
import http.server
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request

# Older calls are refused, so that nobody can repeat one later.
MAX_AGE_SECONDS = 300
MAX_BODY_BYTES = 4 << 20
# The incidents and calls that are remembered.
MOST = 10_000
MAX_TEXT_CHARS = 8_000
# The requests for one call share this time; llm-diagnose waits ten seconds.
CALL_SECONDS = 8
# By incident, the last revision and the values of the watched keys; and the ids of calls, the same for a repeated call.
seen, calls = collections.OrderedDict(), collections.OrderedDict()
deadline = [0.0]


def remember(memory, key, value):
    """Keeps the newest values only, so that a bridge can run for years."""
    memory.pop(key, None)
    memory[key] = value
    while len(memory) > MOST:
        memory.popitem(last=False)


def secret(name):
    """Returns the content of the file that an environment variable names."""
    with open(os.environ[name], encoding="utf-8") as file:
        return file.read().strip()


def is_ours(headers, body):
    """Returns true for a call that our llm-diagnose signed within the last minutes.

    Source: https://github.com/standard-webhooks/standard-webhooks, specification 1.0.0.
    """
    call, at, signatures = (headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (at.isascii() and at.isdigit()) or abs(time.time() - int(at)) > MAX_AGE_SECONDS:
        return False
    key = secret("SECRET_FILE")
    key = base64.b64decode(key.removeprefix("whsec_")) if key.startswith("whsec_") else key.encode()
    mac = hmac.new(key, f"{call}.{at}.".encode() + body, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(mac)
    return any(hmac.compare_digest(expected, one.encode("utf-8", "replace")) for one in signatures.split())


def is_news(kind, data, watched):
    """Returns true if people have not read this: a repetition or an older state is none."""
    revision, values = seen.get(data["id"], (-1, None))
    if kind == "incident.escalated":
        return True
    return data["revision"] > revision and [data[key] for key in watched] != values


def lines(data):
    """Returns `data.text` as lines without CommonMark, each with true if it is a title."""
    for line in data["text"][:MAX_TEXT_CHARS].splitlines():
        title = line.startswith("#")
        line = line.lstrip("#").strip() if title else line.rstrip()
        if line.strip():
            yield re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", line.replace("**", "")), title


def note(kind, data):
    """Returns the state as plain text."""
    text = [line for line, _ in lines(data)]
    if kind == "incident.escalated":
        text.insert(0, "Escalated: somebody asks for help.")
    return "\n".join([data["headline"], *text, *([data["url"]] if data["url"] else [])])


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        """Follows no redirect: another host would get the credentials."""


def send(url, body=None, authorization=None, **headers):
    """Sends JSON, or asks without a body. Returns the JSON of the answer; raises OSError."""
    headers |= {"Content-Type": "application/json"} | ({"Authorization": authorization} if authorization else {})
    data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
    opener, left = urllib.request.build_opener(NoRedirect), max(0.1, deadline[0] - time.monotonic())
    with opener.open(urllib.request.Request(url, data, headers), timeout=left) as answer:
        text = answer.read(MAX_BODY_BYTES)
    try:
        return json.loads(text)
    except ValueError:
        return None


def serve(tell, needs, watched=("headline",)):
    """Listens on 127.0.0.1, at the port of the first argument or a free one, and prints its address. Calls
    `tell(kind, data)` when a watched key of an incident has changed; llm-diagnose tries again if it raises OSError.
    `needs` are environment variables."""
    missing = [name for name in ("SECRET_FILE", *needs) if not os.environ.get(name)]
    if missing:
        sys.exit(f"set {', '.join(missing)}: {sys.argv[0]} says what they are at its top")

    class Bridge(http.server.BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self):
            length = self.headers.get("Content-Length") or ""
            length = int(length) if length.isascii() and length.isdigit() else 0
            if not 0 < length <= MAX_BODY_BYTES:
                return self.answer(413)
            body = self.rfile.read(length)
            if not is_ours(self.headers, body):
                return self.answer(401)
            call, id, deadline[0] = json.loads(body), self.headers["webhook-id"], time.monotonic() + CALL_SECONDS
            if id in calls:
                return self.answer(204)
            kind, data = call["type"], call["data"]
            try:
                if is_news(kind, data, watched):
                    tell(kind, data)
            except OSError as error:
                print(error, file=sys.stderr, flush=True)
                # A refusal for good is not repeated; the next state of the incident is tried.
                code = getattr(error, "code", 503)
                return self.answer(503 if code >= 500 or code in (408, 429) else 422)
            except Exception as error:
                # An answer of the vendor that is not as documented. Its text may hold an address that is a secret.
                print(type(error).__name__, file=sys.stderr, flush=True)
                return self.answer(503)
            if data["revision"] >= seen.get(data["id"], (-1,))[0]:
                remember(seen, data["id"], (data["revision"], [data[key] for key in watched]))
            remember(calls, id, True)
            return self.answer(204)

        def answer(self, status):
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            """No line a call."""

    # One call after the other: what is remembered needs no lock.
    server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0), Bridge)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
