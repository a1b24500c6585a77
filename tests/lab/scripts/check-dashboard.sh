#!/bin/sh
# Holds the committed dashboard, or the file that is named, against the schema that Grafana publishes.
# The models come from PyPI into target/ once; silent when all is well.
set -eu
cd "$(dirname "$0")/../../.."

version='1769699998!10.1.0'
sdk="grafana-foundation-sdk==$version"
venv=target/dashboard/venv
is_there="from importlib.metadata import version; assert version('grafana-foundation-sdk') == '$version'"
if ! "$venv/bin/python" -c "$is_there" 2>/dev/null; then
    rm -rf "$venv"
    if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check "$sdk"; }; then
        echo "check-dashboard: $sdk cannot be installed into $venv: it needs Python 3.11 or newer with venv" >&2
        echo "(apt-get install python3-venv) and PyPI or a mirror (PIP_INDEX_URL)." >&2
        exit 1
    fi
fi
exec "$venv/bin/python" tests/lab/scripts/check-dashboard.py "${1:-config/grafana/llm-diagnose.dashboard.json}"
