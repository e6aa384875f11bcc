#!/bin/sh
# Prints the folder of a server's programs for the tests: an installed one, or else that of Debian's package if this user can
# install it. Otherwise it prints what to install to stderr and exits with 1.
#
#   scripts/server_programs.sh PROGRAM PACKAGE     for example initdb postgresql
set -eu

program=$1 package=$2

log() { printf '%s\n' "$package: $*" >&2; }

find_programs() {
    for candidate in "${SERVER_PROGRAMS:-}" /usr/lib/"$package"/*/bin /opt/homebrew/opt/"$package"*/bin; do
        if [ -n "$candidate" ] && [ -x "$candidate/$program" ]; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    found=$(command -v "$program") && dirname "$found"
}

# Another process may be installing packages: wait for its lock.
apt() { DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >/dev/null; }

find_programs && exit
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    log "installing $package"
    # The package list of a container image is often empty or old.
    apt update && apt install --yes --no-install-recommends "$package" && find_programs && exit
fi
log "there is no $program: install it (Debian: apt-get install $package) or set SERVER_PROGRAMS to its folder."
exit 1
