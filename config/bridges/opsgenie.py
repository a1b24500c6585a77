#!/usr/bin/env python3
"""The signed webhook of llm-diagnose in, notes on the alerts out that Alertmanager opened in Opsgenie.

Usage: opsgenie.py [PORT]
Environment:
  SECRET_FILE        the file that `key_file` of the pager names
  OPSGENIE_KEY_FILE  a file with the key of an API integration
  OPSGENIE_URL       https://api.opsgenie.com unless set; https://api.eu.opsgenie.com in the EU

Sources: https://docs.opsgenie.com/docs/alert-api, "Add Note to Alert"; the alert's alias is SHA-256 of Alertmanager's group
key (https://github.com/prometheus/alertmanager, notify/opsgenie, `key.Hash()`). An alert whose group key has a secret in it
is not found, because llm-diagnose does not tell secrets.
"""

import hashlib
import os

import bridge

MAX_NOTE_CHARS = 25_000


def post(kind, data):
    alias = hashlib.sha256(data["group_key"].encode()).hexdigest()
    base = os.environ.get("OPSGENIE_URL", "https://api.opsgenie.com").rstrip("/")
    body = {"note": bridge.note(kind, data)[:MAX_NOTE_CHARS], "source": "llm-diagnose"}
    key = bridge.secret("OPSGENIE_KEY_FILE")
    bridge.send(f"{base}/v2/alerts/{alias}/notes?identifierType=alias", body, f"GenieKey {key}")


if __name__ == "__main__":
    bridge.serve(post, ["OPSGENIE_KEY_FILE"])
