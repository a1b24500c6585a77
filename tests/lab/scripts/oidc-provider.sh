#!/bin/sh
# oidc-provider.sh PORT ARGUMENT...: runs an OpenID Connect provider for tests, PyPI's oidc-provider-mock, on loopback.
# It comes into target/ once.
set -eu
cd "$(dirname "$0")/../../.."

mkdir -p target/oidc
# Tests run side by side: one of them installs.
exec 9>target/oidc/lock
flock 9
sh tests/lab/scripts/venv.sh target/oidc/venv oidc-provider-mock==0.3.4 annotated-types==0.8.0 anyio==4.16.0 Authlib==1.9.10 \
    blinker==1.9.0 certifi==2026.10.19.post1 cffi==2.1.1 click==8.5.1 cryptography==50.0.2 Flask==3.1.3 h11==0.16.0 htpy==26.5.1 \
    httpcore==1.0.9 httpx==0.28.1 idna==3.20 itsdangerous==2.2.0 Jinja2==3.1.6 joserfc==1.8.0 MarkupSafe==3.0.4 pycparser==3.12 \
    pydantic==2.14.4 pydantic_core==2.50.5 typing-inspection==0.4.5 typing_extensions==4.16.0 uvicorn==0.54.0 Werkzeug==3.1.9
flock -u 9
exec 9>&-
port=$1
shift
exec target/oidc/venv/bin/oidc-provider-mock --host 127.0.0.1 --port "$port" --require-nonce "$@"
