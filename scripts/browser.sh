#!/bin/sh
# Prints the path of a browser for the tests: an installed one, or else Debian's package if this user can install it.
# Otherwise it prints what to install to stderr and exits with 1.
set -eu

package=chromium-headless-shell

log() { printf '%s\n' "browser: $*" >&2; }

find_browser() {
    for candidate in "${CHROMIUM:-}" $package chromium chromium-browser google-chrome google-chrome-stable \
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
        if [ -n "$candidate" ] && command -v "$candidate"; then
            return
        fi
    done
    return 1
}

# Another process may be installing packages: wait for its lock.
apt() { DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >/dev/null; }

find_browser && exit
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    log "installing $package"
    # The package list of a container image is often empty or old.
    apt update && apt install --yes --no-install-recommends "$package" && find_browser && exit
fi
log "there is no Chromium: install it (Debian: apt-get install $package, Ubuntu and macOS: Google Chrome) or set" \
    "CHROMIUM to its path."
exit 1
