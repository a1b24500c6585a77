#!/bin/sh
# venv.sh DIRECTORY PACKAGE==VERSION...: a virtual environment of Python with these packages from PyPI, made once.
# Name what the packages need too: nothing else is installed, so that a release of somebody else's changes nothing here.
set -eu
venv=$1
shift
if [ "$(cat "$venv/packages" 2>/dev/null)" = "$*" ] && "$venv/bin/python" -c '' 2>/dev/null; then
    exit 0
fi
rm -rf "$venv"
if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "$@"; }; then
    echo "$venv cannot be made, with $*: it needs Python 3.11 or newer with venv" >&2
    echo "(apt-get install python3-venv) and PyPI or a mirror (PIP_INDEX_URL)." >&2
    exit 1
fi
echo "$*" >"$venv/packages"
