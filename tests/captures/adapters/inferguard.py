"""InferGuard: `profile live` over a server that shows the page before the fault once, and then the page in the fault."""

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading

SEVERITIES = ["critical", "warning", "info"]
ENGINES = ["vllm", "sglang", "dynamo"]


class Pages(http.server.BaseHTTPRequestHandler):
    pages = []

    def do_GET(self):
        body = self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]
        # An empty page is that of a dead server.
        self.send_response(200 if body else 503)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    if os.environ["ENGINE"] not in ENGINES:
        return {"abstained": True}
    before, during = (open(os.environ[name], "rb").read() for name in ("METRICS_BEFORE", "METRICS_DURING"))
    # A server that was never seen well has no page before.
    Pages.pages = [before, during] if before else [during]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-c", "from inferguard.cli import app; app()", "profile", "live",
                   "--endpoint", f"http://127.0.0.1:{server.server_port}/metrics", "--engine", os.environ["ENGINE"],
                   "--duration", "2", "--interval", "0.2", "--output-dir", directory, "--format", "json"]
        # Elsewhere, for here this file would be taken for the package. Its status says how bad the findings are.
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False, cwd=directory)
        with open(f"{directory}/profile_summary.json", encoding="utf-8") as file:
            findings = json.load(file)["findings"]
    # A remark is no cause, nor is a page of an engine that it does not read.
    unread = "no_metrics_recognized"
    findings = [f for f in findings if f["severity"] != "info" and unread not in f["message"]]
    findings.sort(key=lambda finding: SEVERITIES.index(finding["severity"]))
    names = [finding["code"] for finding in findings]
    return {"root": names[0] if names else None, "chain": names[:1], "candidates": names, "abstained": not names}


print(json.dumps(main()))
