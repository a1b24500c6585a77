#!/bin/sh
# Runs a Python script beside this one with the clients that programs use: OpenAPI tools and the MCP client of PyPI.
# They come into target/ once.
set -eu
cd "$(dirname "$0")/../../.."

packages='openapi-spec-validator==0.9.0 openapi-python-client==0.29.1 mcp==2.3.0'
clients=target/clients
mkdir -p "$clients"
# Tests run side by side: one of them installs.
exec 9>"$clients/lock"
flock 9
if [ "$(cat "$clients/installed" 2>/dev/null || true)" != "$packages" ]; then
    rm -rf "$clients/venv" "$clients/installed"
    # shellcheck disable=SC2086
    if ! { python3 -m venv "$clients/venv" && "$clients/venv/bin/pip" install --quiet --disable-pip-version-check $packages; }; then
        echo "clients: $packages cannot be installed into $clients/venv: it needs Python 3.11 or newer with venv" >&2
        echo "(apt-get install python3-venv) and PyPI or a mirror (PIP_INDEX_URL)." >&2
        exit 1
    fi
    echo "$packages" >"$clients/installed"
fi
flock -u 9
exec 9>&-
script=$1
shift
# The generators start tools of their own.
PATH="$PWD/$clients/venv/bin:$PATH" exec "$clients/venv/bin/python" -B "tests/lab/scripts/$script" "$@"
