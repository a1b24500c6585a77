#!/usr/bin/env python3
"""An example of a bridge: the signed webhook of llm-diagnose in, messages of Mattermost out.

Usage: mattermost.py [PORT]     listens on 127.0.0.1, on a free port without PORT, and prints its address
Environment:
  SECRET_FILE     the file that `key_file` of the pager names
  MATTERMOST_URL  the address of an incoming webhook (Integrations > Incoming Webhooks)

For another chat change `post`; what is read and how it is verified stays. Standard library alone.
"""

import base64
import collections
import hashlib
import hmac
import http.server
import json
import os
import sys
import time
import urllib.request

# Older calls are refused, so that nobody can repeat one later.
MAX_AGE_SECONDS = 300
MAX_BODY_BYTES = 4 << 20
# The incidents and calls that are remembered.
MOST = 10_000
MAX_TEXT_CHARS = 12_000
# By incident, the last revision and headline; and the ids of calls, which are the same when a call is repeated.
seen, calls = collections.OrderedDict(), collections.OrderedDict()


def key():
    with open(os.environ["SECRET_FILE"], encoding="utf-8") as file:
        secret = file.read().strip()
    if secret.startswith("whsec_"):
        return base64.b64decode(secret.removeprefix("whsec_"))
    return secret.encode()


def is_ours(headers, body):
    """Returns true for a call that our llm-diagnose signed within the last minutes."""
    call, at, signatures = (headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (at.isascii() and at.isdigit()) or abs(time.time() - int(at)) > MAX_AGE_SECONDS:
        return False
    mac = hmac.new(key(), f"{call}.{at}.".encode() + body, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(mac)
    return any(hmac.compare_digest(expected, one.encode("utf-8", "replace")) for one in signatures.split())


def is_news(kind, data):
    """Returns true if people have not read this: a repetition or an older state is none."""
    revision, headline = seen.get(data["id"], (-1, ""))
    if kind == "incident.escalated":
        return True
    return data["revision"] > revision and data["headline"] != headline


def plain(text):
    """Returns a text in which nothing is markup or a mention; `data.text` is CommonMark already."""
    return "".join("@\u2060" if c == "@" else f"\\{c}" if c in "\\`*_[]<>#~|" else c for c in text)


def post(kind, data):
    lines = [f"#### {plain(data['headline'])}", data["text"][:MAX_TEXT_CHARS]]
    if kind == "incident.escalated":
        lines.insert(0, "**Escalated**: somebody asks for help.")
    if data["url"]:
        lines.append(f"[The whole diagnosis]({data['url']})")
    request = urllib.request.Request(
        os.environ["MATTERMOST_URL"],
        json.dumps({"username": "llm-diagnose", "text": "\n\n".join(lines)}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=8):
        pass


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
        call, id = json.loads(body), self.headers["webhook-id"]
        if id in calls:
            return self.answer(204)
        kind, data = call["type"], call["data"]
        try:
            if is_news(kind, data):
                post(kind, data)
        except OSError as error:
            # llm-diagnose tries again.
            print(f"Mattermost: {error}", file=sys.stderr, flush=True)
            return self.answer(503)
        last = seen.pop(data["id"], (-1, ""))
        seen[data["id"]] = max(last, (data["revision"], data["headline"]), key=lambda state: state[0])
        calls[id] = True
        for remembered in (seen, calls):
            while len(remembered) > MOST:
                remembered.popitem(last=False)
        return self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """No line a call."""


if __name__ == "__main__":
    # One call after the other: what is remembered needs no lock.
    server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0), Bridge)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
