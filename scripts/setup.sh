#!/bin/sh
# Sets up a fresh clone: .venv and Airflow home in its own folder, jars and class data archive in the cache of this user.
#
#   scripts/setup.sh           everything
#   scripts/setup.sh python    only the Python packages, without Java (make lint, make test-fast)
#
# Each step writes a stamp of its inputs and is skipped while they have not changed.
set -eu
cd "$(dirname "$0")/.."

stamps=.cache/setup
python=.venv/bin/python

log() { printf '%s\n' "setup: $*" >&2; }
fail() { log "$*"; exit 1; }

# stamped STEP INPUT...: whether the step was done with these inputs (files by content, other arguments by value).
# Sets $now, the stamp that `done_with STEP` writes after the step has succeeded.
stamped() {
    step=$1
    shift
    now=$(for input in "$@"; do if [ -f "$input" ]; then cksum <"$input"; else echo "$input"; fi; done)
    [ -f "$stamps/$step" ] && [ "$(cat "$stamps/$step")" = "$now" ]
}
done_with() {
    mkdir -p "$stamps"
    printf '%s\n' "$now" >"$stamps/$1"
}

suitable() { "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3; do
        if [ -n "$candidate" ] && suitable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "Tidegate needs Python 3.11 or newer with its venv module, but there is none: install it (Debian and Ubuntu:" \
        "apt-get install python3 python3-venv, macOS: brew install python@3.12) or set PYTHON to its path."
}

install_packages() {
    # uv installs the lock in half a minute, pip in several. pip is used if uv cannot be installed, or cannot reach the
    # index that pip is configured for.
    uv=$(sed -n 's/^\(uv==[^ ;]*\).*/\1/p' requirements.txt)
    if "$python" -m pip install --quiet --disable-pip-version-check "$uv" &&
        .venv/bin/uv pip install --quiet --python "$python" -r requirements.txt; then
        return
    fi
    log "uv failed; installing with pip instead (several minutes)"
    "$python" -m pip install --quiet --disable-pip-version-check -r requirements.txt
}

case ${1:-all} in
all | python) ;;
*) fail "unknown argument '$1'; the only argument is 'python'." ;;
esac

# Report missing prerequisites first: the other steps take minutes.
if ! { [ -x "$python" ] && suitable "$python"; }; then
    base=$(find_python)
else
    base=$python
fi

if [ "$base" != "$python" ]; then
    log "creating .venv with $("$base" -V)"
    rm -rf "$stamps"
    "$base" -m venv --clear .venv
fi
if ! stamped packages requirements.txt "$("$python" -V)"; then
    log "installing the packages of requirements.txt"
    install_packages
    done_with packages
fi
# uv does not compile packages. Runs every time, because bytecode may have been deleted since.
"$python" -m tidegate.runtime.bytecode
if ! stamped project pyproject.toml "$PWD"; then
    log "installing the project itself, editable"
    # Without build isolation: the build backend is pinned in the lock, so nothing else is downloaded.
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
    done_with project
fi
if [ "${1:-all}" = all ]; then
    exec "$python" -m devstack
fi
