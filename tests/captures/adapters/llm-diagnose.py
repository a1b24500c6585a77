"""llm-diagnose: the alert goes in, the chain of its first cause comes out. Only a likely cause is a commitment."""

import json
import os
import subprocess

output = subprocess.run(
    [os.environ["LLM_DIAGNOSE"], "diagnose", "--alert", os.environ["ALERT_FILE"], "--prometheus", os.environ["PROMETHEUS_URL"],
     "--at", os.environ["AT"], "--output", "json"],
    stdout=subprocess.PIPE, check=False,
).stdout
diagnosis = json.loads(output)
# It lists what it ruled out as well.
causes = [cause for cause in diagnosis["causes"] if cause["verdict"] in ("likely", "possible")]
symptom = [diagnosis["symptom"]["playbook"]] if diagnosis["symptom"]["verdict"] == "confirmed" else []
print(json.dumps({
    "root": causes[0]["id"] if causes else None,
    "chain": causes[0]["chain"] if causes else symptom,
    "candidates": [cause["id"] for cause in causes],
    "abstained": not causes or causes[0]["verdict"] != "likely",
}))
