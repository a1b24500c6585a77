#!/usr/bin/env python3
"""The signed webhook of llm-diagnose in, Adaptive Cards of Microsoft Teams out.

Usage: teams.py [PORT]
Environment:
  SECRET_FILE  the file that `key_file` of the pager names
  TEAMS_URL    the address of a workflow with the trigger "When a Teams webhook request is received"

Sources: https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using (the message
and its limit of 28 KB), https://learn.microsoft.com/adaptive-cards/schema-explorer/rich-text-block (version 1.2).
"""

import os

import bridge

# The card's other parts and the JSON around each line need the rest of 28 KB.
MAX_BYTES = 18_000
COLORS = {"critical": "attention", "warning": "warning", "resolved": "good"}


def block(text, **look):
    """Returns a line in which nothing is markup or a mention: a TextRun knows no Markdown."""
    return {"type": "RichTextBlock", "spacing": "small", "inlines": [{"type": "TextRun", "text": text, **look}]}


def card(kind, data):
    body = [block(data["headline"], size="large", weight="bolder", color=COLORS.get(data["severity"], "default"))]
    if kind == "incident.escalated":
        body.append(block("Escalated: somebody asks for help.", weight="bolder"))
    left = MAX_BYTES
    for line, is_title in bridge.lines(data):
        left -= len(line.encode()) + 100
        if left < 0:
            body.append(block("… (cut)"))
            break
        body.append(block(line, weight="bolder" if is_title else "default"))
    content = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.2",
        "body": body,
    }
    if data["url"]:
        content["actions"] = [{"type": "Action.OpenUrl", "title": "The whole diagnosis", "url": data["url"]}]
    return content


def post(kind, data):
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card(kind, data)}
    bridge.send(os.environ["TEAMS_URL"], {"type": "message", "attachments": [attachment]})


if __name__ == "__main__":
    bridge.serve(post, ["TEAMS_URL"])
