#!/usr/bin/env python3
"""The signed webhook of llm-diagnose in, alerts of incident.io out: one for each incident, which later calls update.

incident.io's API takes no note on an incident from outside; alert events of one deduplication key belong to one alert, and an
alert route attaches it to the incident.

Usage: incident_io.py [PORT]
Environment:
  SECRET_FILE             the file that `key_file` of the pager names
  INCIDENT_IO_URL         the address of an HTTP alert source, https://api.incident.io/v2/alert_events/http/…
  INCIDENT_IO_TOKEN_FILE  a file with its token

Source: https://docs.incident.io/api-reference, "Alert Events V2", create by HTTP.
"""

import os

import bridge


def post(kind, data):
    body = {
        "title": data["headline"],
        "description": data["text"][: bridge.MAX_TEXT_CHARS],
        "status": "resolved" if kind == "incident.resolved" else "firing",
        "deduplication_key": data["id"],
        "metadata": {"severity": data["severity"], "group_key": data["group_key"], "labels": data["labels"]},
    }
    if data["url"]:
        body["source_url"] = data["url"]
    bridge.send(os.environ["INCIDENT_IO_URL"], body, f"Bearer {bridge.secret('INCIDENT_IO_TOKEN_FILE')}")


if __name__ == "__main__":
    bridge.serve(post, ["INCIDENT_IO_URL", "INCIDENT_IO_TOKEN_FILE"])
