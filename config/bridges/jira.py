#!/usr/bin/env python3
"""The signed webhook of llm-diagnose in, issues of Jira Cloud out: an issue when somebody acknowledges the incident, a
comment when its state changes; the end of the incident moves the issue to a status of the category "done".

Usage: jira.py [PORT]
Environment:
  SECRET_FILE      the file that `key_file` of the pager names
  JIRA_URL         https://example.atlassian.net
  JIRA_USER        the e-mail address of the account
  JIRA_TOKEN_FILE  a file with its API token
  JIRA_PROJECT     the key of the project
  JIRA_TYPE        the type of the issues, Task unless set

Source: https://developer.atlassian.com/cloud/jira/platform/rest/v3/ (issues, comments, transitions, `search/jql`), texts
as https://developer.atlassian.com/cloud/jira/platform/apis/document/structure/. Issues are found by a label with the
incident's id, so that a restart makes no second one.
"""

import base64
import collections
import os

import bridge

MAX_SUMMARY_CHARS = 255
# By incident; Jira's search finds a new issue only after some seconds.
issues = collections.OrderedDict()


def api(path, body=None):
    token = base64.b64encode(f"{os.environ['JIRA_USER']}:{bridge.secret('JIRA_TOKEN_FILE')}".encode()).decode()
    return bridge.send(f"{os.environ['JIRA_URL'].rstrip('/')}/rest/api/3/{path}", body, f"Basic {token}")


def document(kind, data):
    """Returns the state as a document of Atlassian's format."""
    text = [bridge.note(kind, {**data, "text": "", "url": None}).splitlines(), *bridge.lines(data)]
    nodes = [{"type": "paragraph", "content": [{"type": "text", "text": line}]} for line in text[0]]
    for line, is_title in text[1:]:
        node = {"type": "heading", "attrs": {"level": 3}} if is_title else {"type": "paragraph"}
        nodes.append({**node, "content": [{"type": "text", "text": line}]})
    if data["url"]:
        link = {"type": "link", "attrs": {"href": data["url"]}}
        nodes.append({"type": "paragraph", "content": [{"type": "text", "text": "The whole diagnosis", "marks": [link]}]})
    return {"type": "doc", "version": 1, "content": nodes}


def tell(kind, data):
    label, project = f"llm-diagnose-{data['id']}", os.environ["JIRA_PROJECT"]
    if data["id"] not in issues:
        found = api("search/jql", {"jql": f'project = "{project}" AND labels = "{label}"', "fields": ["status"], "maxResults": 1})
        if found["issues"]:
            bridge.remember(issues, data["id"], found["issues"][0]["key"])
    key, ended = issues.get(data["id"]), kind == "incident.resolved"
    if key is None and (ended or not data["acknowledged_by"]):
        return
    if key is None:
        fields = {"project": {"key": project}, "issuetype": {"name": os.environ.get("JIRA_TYPE", "Task")}, "labels": [label]}
        fields |= {"summary": data["headline"][:MAX_SUMMARY_CHARS], "description": document(kind, data)}
        bridge.remember(issues, data["id"], api("issue", {"fields": fields})["key"])
        return
    if ended:
        # First, because a repeated transition does nothing, and a repeated comment is read twice.
        moves = api(f"issue/{key}/transitions")["transitions"]
        done = next((move["id"] for move in moves if move["to"]["statusCategory"]["key"] == "done"), None)
        if done:
            api(f"issue/{key}/transitions", {"transition": {"id": done}})
    api(f"issue/{key}/comment", {"body": document(kind, data)})


if __name__ == "__main__":
    bridge.serve(tell, ["JIRA_URL", "JIRA_USER", "JIRA_TOKEN_FILE", "JIRA_PROJECT"], watched=("headline", "acknowledged_by"))
