#!/bin/sh
# Prints the path of the S3 server for the tests, versitygw, which `make s3-server` (this script with `build`) builds by Go into the
# user's cache. Where it was not built, prints what to do to stderr and exits with 1: tests that need it are skipped then.
set -eu

version=v1.8.0
cache=${TIDEGATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tidegate}
program=$cache/versitygw-$version/versitygw

log() { printf '%s\n' "s3-server: $*" >&2; }

if [ -x "$program" ]; then
    printf '%s\n' "$program"
    exit
fi
if [ "${1:-}" != build ]; then
    log "the S3 server of the tests is not built: run \`make s3-server\`, which needs Go."
    exit 1
fi
if ! command -v go >/dev/null; then
    log "building the S3 server of the tests needs Go 1.25 or newer: install it (https://go.dev/dl), then run \`make s3-server\` again."
    exit 1
fi
# Go compares the sources with its public log of checksums. The rename keeps tests from starting a half-written program.
mkdir -p "$cache"
folder=$(mktemp -d "$cache/.versitygw-XXXXXX")
trap 'rm -rf "$folder"' EXIT
GOBIN=$folder go install -trimpath -ldflags '-s -w' "github.com/versity/versitygw/cmd/versitygw@$version"
mkdir -p "$(dirname "$program")"
mv "$folder/versitygw" "$program"
printf '%s\n' "$program"
