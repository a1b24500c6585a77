#!/bin/sh
# Runs a Python script beside this one with the clients that programs use: OpenAPI tools and the MCP client of PyPI.
# They come into target/ once; clients.txt pins each package by its hashes, so that no release of somebody else's changes
# what runs here.
set -eu
cd "$(dirname "$0")/../../.."

pinned=tests/lab/scripts/clients.txt
clients=target/clients
mkdir -p "$clients"
# Tests run side by side: one of them installs.
exec 9>"$clients/lock"
flock 9
if ! cmp -s "$pinned" "$clients/installed" || ! "$clients/venv/bin/python" -c ''; then
    rm -rf "$clients/venv" "$clients/installed"
    if ! { python3 -m venv "$clients/venv" && "$clients/venv/bin/pip" install --quiet --disable-pip-version-check \
        --require-hashes --no-deps --only-binary :all: --requirement "$pinned"; }; then
        echo "clients: what $pinned lists cannot be installed into $clients/venv: it needs Python 3.11 or newer with venv" >&2
        echo "(apt-get install python3-venv) and PyPI or a mirror (PIP_INDEX_URL)." >&2
        exit 1
    fi
    cp "$pinned" "$clients/installed"
fi
flock -u 9
exec 9>&-
script=$1
shift
# The generators start tools of their own.
PATH="$PWD/$clients/venv/bin:$PATH" exec "$clients/venv/bin/python" -B "tests/lab/scripts/$script" "$@"
