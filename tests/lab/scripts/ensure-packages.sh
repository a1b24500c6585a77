#!/bin/sh
# Prometheus, VictoriaMetrics, Alertmanager, PostgreSQL, nginx, Chromium, Debian's tools for packages and Python's venv for the demo and the tests:
# installs Debian's packages where they are missing, and those that its arguments name.
# Silent when all is there.
set -eu

have() { command -v "$1" >/dev/null 2>&1; }

# Debian keeps each version's programs out of PATH.
have_postgres() {
    have initdb && return
    for initdb in /usr/lib/postgresql/*/bin/initdb; do
        [ -x "$initdb" ] && return
    done
    return 1
}

packages=
if ! have prometheus || ! have promtool; then
    packages=prometheus
fi
if ! have prometheus-alertmanager && ! have alertmanager; then
    packages="$packages prometheus-alertmanager"
fi
have_postgres || packages="$packages postgresql"
have victoria-metrics || packages="$packages victoria-metrics"
have nginx || [ -x /usr/sbin/nginx ] || packages="$packages nginx-light"
have chromium || packages="$packages chromium"
have dpkg-shlibdeps || packages="$packages dpkg-dev"
# Debian's Python comes without what makes virtual environments.
if have python3 && ! python3 -c 'import ensurepip' 2>/dev/null; then
    packages="$packages python3-venv"
fi
for package; do
    dpkg -s "$package" >/dev/null 2>&1 || packages="$packages $package"
done
[ -n "$packages" ] || exit 0
packages=${packages# }

fail() {
    echo "ensure-packages: $packages missing from PATH, and $1." >&2
    echo "Install Prometheus (with promtool), VictoriaMetrics, Alertmanager, PostgreSQL, nginx, Chromium and Python's venv, and run this again:" >&2
    echo "  https://prometheus.io/download/ https://www.postgresql.org/download/" >&2
    exit 1
}

have apt-get || fail "there is no apt-get here"
as_root=
if [ "$(id -u)" -ne 0 ]; then
    have sudo || fail "apt-get needs root, and there is no sudo"
    as_root=sudo
fi

# In runlevel 1 invoke-rc.d starts nothing, so the packages' own services on 9090 and 9093 stay off for now.
quietly() {
    # shellcheck disable=SC2086 # empty for root
    $as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 "$@"
}

echo "Installing $packages with apt-get${as_root:+ (sudo)}; only the programs are used, not their services."
quietly apt-get update -qq || fail "\`apt-get update\` failed"
case " $packages " in *" postgresql "*)
    # Else the package makes a cluster and starts it at every boot; one that is there already stays as it is.
    if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        $as_root mkdir -p /etc/postgresql-common
        echo 'create_main_cluster = false' | $as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
    fi
    ;;
esac
# shellcheck disable=SC2086 # several words
quietly apt-get install -y -qq --no-install-recommends $packages || fail "\`apt-get install\` failed"

have prometheus && have promtool || fail "they are still not there after the installation"
have_postgres || fail "PostgreSQL's initdb is still not there after the installation"
have prometheus-alertmanager || have alertmanager || fail "they are still not there after the installation"

# systemd is not bound by the runlevel variable on every release, and starts them at the next boot in any case.
if [ -d /run/systemd/system ]; then
    echo "To keep Debian's services off, now and after a reboot:"
    echo "  ${as_root:+sudo }systemctl disable --now $packages"
fi
