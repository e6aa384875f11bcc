#!/bin/sh
# Prints the path of a browser that tests can drive, and nothing else: one that is there, or else Debian's package where
# this user may install it. Otherwise one sentence says what to install, and the exit code is 1.
set -eu

package=chromium-headless-shell

say() { printf '%s\n' "browser: $*" >&2; }

find_browser() {
    for candidate in "${CHROMIUM:-}" $package chromium chromium-browser google-chrome google-chrome-stable \
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
        if [ -n "$candidate" ] && command -v "$candidate"; then
            return
        fi
    done
    return 1
}

# Another set-up on this machine may be installing too, so wait for its lock.
apt() { DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >/dev/null; }

find_browser && exit
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing $package"
    # The package list of an image is often empty or old.
    apt update && apt install --yes --no-install-recommends "$package" && find_browser && exit
fi
say "there is no Chromium: install one (Debian: apt-get install $package, Ubuntu and macOS: Google Chrome) or set" \
    "CHROMIUM to its path."
exit 1
