"""inference-aiops: what its latency diagnosis (`metrics diagnose`, and for SGLang the engine's) says of the page in the fault."""

import json
import os
from types import SimpleNamespace

from inference_aiops.connection import parse_prometheus
from inference_aiops.ops.engine import diagnose_engine_latency
from inference_aiops.ops.metrics import diagnose_latency_spike


def main():
    engine = os.environ["ENGINE"]
    if engine not in ("vllm", "sglang"):
        return {"abstained": True}
    with open(os.environ["METRICS_DURING"], encoding="utf-8") as file:
        page = parse_prometheus(file.read())
    # It reads a server's page by HTTP; the saved page stands in for the server.
    connection = SimpleNamespace(target=SimpleNamespace(engine=engine), engine_metrics=lambda: page, vllm_metrics=lambda: page)
    diagnose = diagnose_latency_spike if engine == "vllm" else diagnose_engine_latency
    causes = [cause["cause"].split(" — ")[0].rstrip(".") for cause in diagnose(connection)["probableCauses"]]
    causes = [cause for cause in causes if not cause.startswith("No ")]
    return {"root": causes[0] if causes else None, "chain": causes[:1], "candidates": causes, "abstained": not causes}


print(json.dumps(main()))
