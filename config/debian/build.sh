#!/bin/sh
# Makes Debian's package of a program that was built: build.sh PROGRAM DIRECTORY. Needs dpkg-dev.
# COMPRESSION is dpkg-deb's -Z (xz), SOURCE_DATE_EPOCH the time in the package: the same input gives the same file.
set -eu
program=$(realpath "$1")
into=$2
cd "$(dirname "$0")/../.."
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH

name=llm-diagnose
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# Debian's own revision of it.
revision=$version-1
maintainer='The llm-diagnose project <llm-diagnose@users.noreply.github.com>'
architecture=$(dpkg --print-architecture)
mkdir -p "$into"
into=$(realpath "$into")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Where dpkg-shlibdeps looks for it.
root=$work/debian/$name
put() { install -D -m "${3:-0644}" "$1" "$root/$2"; }

put "$program" usr/bin/$name 0755
strip --strip-unneeded "$root/usr/bin/$name"
# The unit in config/systemd is for a program that somebody installs by hand. The package's configuration names no secret.
sed -e 's|/usr/local/bin/|/usr/bin/|' -e 's|^LoadCredential=|#&|' -e '1,/^$/{/^#/d}' config/systemd/$name.service >"$work/unit"
put "$work/unit" usr/lib/systemd/system/$name.service
put config/debian/$name.yaml etc/$name/$name.yaml
install -d -m 0750 "$root/etc/$name/secrets"

"$program" generate man --output "$work/man"
for page in "$work"/man/*.1; do
    gzip -9n "$page"
    put "$page.gz" "usr/share/man/man1/$(basename "$page").gz"
done
complete() { "$program" completions "$1" >"$work/completion" && put "$work/completion" "$2"; }
complete bash usr/share/bash-completion/completions/$name
complete zsh usr/share/zsh/vendor-completions/_$name
complete fish usr/share/fish/vendor_completions.d/$name.fish

doc=usr/share/doc/$name
put config/debian/copyright $doc/copyright
gzip -9nc CHANGELOG.md >"$work/changelog.gz"
put "$work/changelog.gz" $doc/changelog.gz
printf '%s (%s) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n' \
    $name "$revision" "$maintainer" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9nc >"$work/debian-changelog.gz"
put "$work/debian-changelog.gz" $doc/changelog.Debian.gz
put config/$name.example.yaml $doc/examples/$name.example.yaml
put config/slack/manifest.yaml $doc/examples/slack-manifest.yaml
put config/alertmanager/$name.yaml $doc/examples/alertmanager.yaml
put config/prometheus/$name.rules.yaml $doc/examples/$name.rules.yaml
put config/prometheus/$name-self.rules.yaml $doc/examples/$name-self.rules.yaml
put config/grafana/$name.dashboard.json $doc/examples/$name.dashboard.json

# Which libraries the program is linked with, in the packages of this machine.
mkdir -p "$root/DEBIAN"
printf 'Source: %s\n\nPackage: %s\nArchitecture: any\n' $name $name >"$work/debian/control"
(cd "$work" && dpkg-shlibdeps -Olibraries "$root/usr/bin/$name")
libraries=$(sed -n 's/^shlibs:Depends=//p' "$work/libraries")
cat >"$root/DEBIAN/control" <<CONTROL
Package: $name
Version: $revision
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: $libraries, ca-certificates, passwd
Suggests: prometheus, prometheus-alertmanager
Section: net
Priority: optional
Homepage: https://github.com/llm-diagnose/llm-diagnose
Description: diagnoses alerts of LLM serving fleets
 Takes Alertmanager's webhooks of vLLM, SGLang and other engines, queries
 Prometheus by playbooks, and posts to Slack what is wrong, since when, why,
 and what to do. It only reads what it diagnoses.
CONTROL
echo "/etc/$name/$name.yaml" >"$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    install -m 0755 config/debian/$script "$root/DEBIAN/$script"
done
(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
chmod 0644 "$root/DEBIAN/control" "$root/DEBIAN/conffiles" "$root/DEBIAN/md5sums"
find "$root" -type d ! -name secrets -exec chmod 0755 {} +
dpkg-deb --root-owner-group -Z"${COMPRESSION:-xz}" --build "$root" "$into" >/dev/null
echo "$into/${name}_${revision}_$architecture.deb"
