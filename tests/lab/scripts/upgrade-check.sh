#!/bin/sh
# Builds the previous release from git into target/previous and starts it on a store that this version made and used.
# PREVIOUS names another commit. Needs target/debug/llm-diagnose and target/debug/upgrade.
set -eu
cd "$(dirname "$0")/../../.."

# Until there is a release with a tag: the commit that made the tables as they are. No earlier one can use the store.
first=$(git log --diff-filter=A --format=%H -1 -- src/store/migrations/0001_store.sql)
previous=${PREVIOUS:-$(git describe --tags --abbrev=0 2>/dev/null || echo "$first")}
commit=$(git rev-parse --verify --quiet "$previous^{commit}") || {
    echo "upgrade-check: there is no commit $previous: fetch the whole history (git fetch --unshallow --tags)" >&2
    exit 1
}
source=target/previous/$commit
if [ ! -d "$source" ]; then
    mkdir -p "$source.part"
    git archive "$commit" | tar -x -C "$source.part"
    mv "$source.part" "$source"
fi
CARGO_TARGET_DIR=$PWD/target/previous/target "${CARGO:-cargo}" build --locked --quiet \
    --manifest-path "$source/Cargo.toml" --bin llm-diagnose
exec target/debug/upgrade target/debug/llm-diagnose target/previous/target/debug/llm-diagnose
