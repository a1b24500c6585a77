"""vllm-doctor: its rules over ten minutes of the Prometheus. The worst finding that it is surest of is its root.

It always asks for now, so a small proxy on loopback adds the case's time to its queries.
"""

import http.server
import json
import os
import subprocess
import sys
import threading
import urllib.parse
import urllib.request

SEVERITIES = ["critical", "warning", "info"]
CONFIDENCES = ["high", "medium", "low"]


class AtTheTime(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path, _, query = self.path.partition("?")
        values = dict(urllib.parse.parse_qsl(query))
        if path == "/api/v1/query":
            values.setdefault("time", os.environ["AT"])
        url = os.environ["PROMETHEUS_URL"] + path + "?" + urllib.parse.urlencode(values)
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                status, body, kind = answer.status, answer.read(), answer.headers["Content-Type"]
        except urllib.error.HTTPError as error:
            status, body, kind = error.code, error.read(), "text/plain"
        self.send_response(status)
        self.send_header("Content-Type", kind or "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    if os.environ["ENGINE"] != "vllm":
        return {"abstained": True}
    with open(os.environ["ALERT_FILE"], encoding="utf-8") as file:
        model = json.load(file)["alerts"][0]["labels"].get("model_name")
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), AtTheTime)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    command = [sys.executable, "-c", "from vllm_doctor.cli import app; app()", "diagnose",
               f"http://127.0.0.1:{proxy.server_port}", "--since", "10m", "--output", "json"]
    output = subprocess.run(command + (["--model", model] if model else []), stdout=subprocess.PIPE, check=True).stdout
    fired = [check for check in json.loads(output)["checks"] if check["finding"]]
    fired.sort(key=lambda check: (SEVERITIES.index(check["finding"]["severity"]),
                                  CONFIDENCES.index(check["finding"]["confidence"])))
    names = [check["id"] for check in fired]
    return {"root": names[0] if names else None, "chain": names[:1], "candidates": names, "abstained": not names}


print(json.dumps(main()))
