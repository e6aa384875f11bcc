#!/bin/sh
# Prints the folder of Postgres' programs for the tests: an installed one, or else that of Debian's package if this user can
# install it. Otherwise it prints what to install to stderr and exits with 1.
set -eu

log() { printf '%s\n' "postgres: $*" >&2; }

find_programs() {
    for candidate in "${POSTGRES_BIN:-}" /usr/lib/postgresql/*/bin /opt/homebrew/opt/postgresql*/bin; do
        if [ -n "$candidate" ] && [ -x "$candidate/initdb" ]; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    initdb=$(command -v initdb) && dirname "$initdb"
}

# Another process may be installing packages: wait for its lock.
apt() { DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >/dev/null; }

find_programs && exit
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    log "installing postgresql"
    # The package list of a container image is often empty or old.
    apt update && apt install --yes --no-install-recommends postgresql && find_programs && exit
fi
log "there is no Postgres: install it (Debian: apt-get install postgresql) or set POSTGRES_BIN to the folder of initdb."
exit 1
