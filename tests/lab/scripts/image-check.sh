#!/bin/sh
# Builds the last stage of config/Dockerfile around target/release/llm-diagnose with buildah, starts it as the image's user, and
# tells what it takes: at most 40 MB to be pulled. Without a registry the base image is made here, from the Debian packages that
# distroless makes it of. For Debian 12, as root: a program that was linked with a newer glibc does not run on the base.
set -eu
cd "$(dirname "$0")/../../.."
sh tests/lab/scripts/ensure-packages.sh buildah curl ca-certificates

most_mb=40
program=target/release/llm-diagnose
[ -x "$program" ] || { echo "image-check: there is no $program: make release" >&2; exit 1; }
work=$(mktemp -d)
served=
# Storage of its own, which goes with it; vfs and chroot need no rights that a container lacks, and leave no mount.
export BUILDAH_ISOLATION=chroot
storage="--storage-driver vfs --root $work/storage --runroot $work/run"
# shellcheck disable=SC2086 # several words
in_storage() { buildah $storage "$@"; }
finish() {
    if [ -n "$served" ]; then
        kill "$served" 2>/dev/null || true
        wait "$served" || true
    fi
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

base=$(sed -n 's/^FROM \([^ ]*\)$/\1/p' config/Dockerfile)
# shellcheck disable=SC2086 # several words
if ! timeout 60 buildah $storage pull -q "$base" >"$work/pull" 2>&1; then
    echo "$base cannot be pulled ($(tail -n 1 "$work/pull")): its Debian packages stand in for it."
    mkdir -p "$work/packages" "$work/base/etc/ssl/certs" "$work/ca"
    (cd "$work/packages" && apt-get download -qq base-files netbase tzdata libc6 ca-certificates 2>"$work/apt") || {
        cat "$work/apt" >&2
        echo "image-check: apt-get cannot download them: apt-get update" >&2
        exit 1
    }
    for package in "$work"/packages/*.deb; do
        case $package in
            */ca-certificates_*) dpkg -x "$package" "$work/ca" ;;
            *) dpkg -x "$package" "$work/base" ;;
        esac
    done
    cat "$work"/ca/usr/share/ca-certificates/mozilla/*.crt >"$work/base/etc/ssl/certs/ca-certificates.crt"
    echo 'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin' >"$work/base/etc/passwd"
    empty=$(in_storage from scratch)
    in_storage copy -q "$empty" "$work/base" / >/dev/null
    in_storage commit -q "$empty" "$base" >/dev/null
fi

# What the stage that compiles leaves.
built=$work/built
mkdir -p "$built/src/target/release" "$built/state" "$built/libraries"
cp "$program" "$built/src/target/release/"
cp -L /lib/*-linux-gnu/libgcc_s.so.1 "$built/libraries/"
awk '/^FROM/ { stage++ } stage == 2' config/Dockerfile | sed 's/--from=build //' >"$work/Dockerfile"
in_storage build -q --pull=never -f "$work/Dockerfile" -t llm-diagnose:check "$built" >/dev/null

mkdir -m 755 "$work/etc"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
head -c 32 /dev/urandom | base64 >"$work/etc/token"
cat >"$work/etc/llm-diagnose.yaml" <<EOF
listen: 127.0.0.1:$port
webhook: { bearer_token_file: /etc/llm-diagnose/token }
prometheus: [{ url: "http://127.0.0.1:1" }]
EOF
container=$(in_storage from --pull-never llm-diagnose:check)
# Becomes the program in the container with these arguments.
inside() {
    # shellcheck disable=SC2086 # several words
    exec buildah $storage run --user 65532:65532 -v "$work/etc:/etc/llm-diagnose:ro" "$container" -- \
        /usr/local/bin/llm-diagnose "$@"
}
(inside --version)
(inside check) >"$work/checked" || {
    cat "$work/checked" >&2
    exit 1
}
cat "$work/checked"
grep -q '^[1-9][0-9]* playbooks' "$work/checked" || { echo "image-check: the program has no playbooks" >&2; exit 1; }
(inside serve --config /etc/llm-diagnose/llm-diagnose.yaml) >"$work/served" 2>&1 &
served=$!
curl -s --noproxy '*' --retry 30 --retry-delay 1 --retry-connrefused -o /dev/null --fail "http://127.0.0.1:$port/healthz" || {
    cat "$work/served" >&2
    exit 1
}
kill -0 "$served" || {
    cat "$work/served" >&2
    exit 1
}
echo "it serves as user 65532"

in_storage push -q llm-diagnose:check "oci:$work/pushed" >/dev/null
pulled=$(du -s --block-size=1 --apparent-size "$work/pushed/blobs" | cut -f1)
mount=$(in_storage mount "$container")
unpacked=$(du -s --block-size=1 --apparent-size "$mount" | cut -f1)
awk -v pulled="$pulled" -v unpacked="$unpacked" -v most="$most_mb" 'BEGIN {
    printf "image: %.1f MB to be pulled (at most %d), %.1f MB unpacked\n", pulled / 1e6, most, unpacked / 1e6
    exit pulled > most * 1e6
}'
