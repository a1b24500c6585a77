#!/bin/sh
# Holds the committed dashboard, or the file that is named, against the schema that Grafana publishes.
# The models come from PyPI into target/ once; silent when all is well.
set -eu
cd "$(dirname "$0")/../../.."

venv=target/dashboard/venv
sh tests/lab/scripts/venv.sh $venv 'grafana-foundation-sdk==1769699998!10.1.0'
exec "$venv/bin/python" tests/lab/scripts/check-dashboard.py "${1:-config/grafana/llm-diagnose.dashboard.json}"
