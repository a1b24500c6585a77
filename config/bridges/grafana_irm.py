#!/usr/bin/env python3
"""The signed webhook of llm-diagnose in, resolution notes out on the alert groups of Grafana IRM (OnCall) that Alertmanager
or Grafana opened.

Usage: grafana_irm.py [PORT]
Environment:
  SECRET_FILE              the file that `key_file` of the pager names
  GRAFANA_IRM_URL          the address of the OnCall API (Settings > Admin & API)
  GRAFANA_IRM_TOKEN_FILE   a file with the value of `Authorization`: an OnCall key, or `Bearer` and a service account's token
  GRAFANA_IRM_INTEGRATION  the id of the integration that receives the alerts
  GRAFANA_URL              https://example.grafana.net, which a service account's token needs

Sources: https://grafana.com/docs/grafana-cloud/alerting-and-irm/irm/reference/oncall-api/, "Alert groups" and "Resolution
notes"; the newest alert of a group holds the body of Alertmanager's webhook, with its group key.
"""

import os
import urllib.parse

import bridge


def api(path, body=None):
    headers = {"X-Grafana-URL": os.environ["GRAFANA_URL"]} if "GRAFANA_URL" in os.environ else {}
    token = bridge.secret("GRAFANA_IRM_TOKEN_FILE")
    return bridge.send(f"{os.environ['GRAFANA_IRM_URL'].rstrip('/')}/api/v1/{path}", body, token, **headers)


def key_of(group):
    return ((group.get("last_alert") or {}).get("payload") or {}).get("groupKey")


def post(kind, data):
    integration = urllib.parse.quote(os.environ["GRAFANA_IRM_INTEGRATION"], safe="")
    # The newest come first.
    groups = api(f"alert_groups/?integration_id={integration}")["results"]
    found = next((group["id"] for group in groups if key_of(group) == data["group_key"]), None)
    if found is None:
        # It may not be there yet: llm-diagnose tries again.
        raise OSError(f"Grafana IRM has no alert group with the group key of incident {data['id']}")
    api("resolution_notes/", {"alert_group_id": found, "text": bridge.note(kind, data)})


if __name__ == "__main__":
    bridge.serve(post, ["GRAFANA_IRM_URL", "GRAFANA_IRM_TOKEN_FILE", "GRAFANA_IRM_INTEGRATION"])
