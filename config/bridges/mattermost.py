#!/usr/bin/env python3
"""The signed webhook of llm-diagnose in, messages of Mattermost out. For another chat change `post`.

Usage: mattermost.py [PORT]
Environment:
  SECRET_FILE     the file that `key_file` of the pager names
  MATTERMOST_URL  the address of an incoming webhook (Integrations > Incoming Webhooks)

Source of the body: https://developers.mattermost.com/integrate/webhooks/incoming/.
"""

import os

import bridge


def plain(text):
    """Returns a text in which nothing is markup or a mention; `data.text` is CommonMark already."""
    return "".join("@\u2060" if c == "@" else f"\\{c}" if c in "\\`*_[]<>#~|" else c for c in text)


def post(kind, data):
    lines = [f"#### {plain(data['headline'])}", data["text"][: bridge.MAX_TEXT_CHARS]]
    if kind == "incident.escalated":
        lines.insert(0, "**Escalated**: somebody asks for help.")
    if data["url"]:
        lines.append(f"[The whole diagnosis]({data['url']})")
    bridge.send(os.environ["MATTERMOST_URL"], {"username": "llm-diagnose", "text": "\n\n".join(lines)})


if __name__ == "__main__":
    bridge.serve(post, ["MATTERMOST_URL"])
