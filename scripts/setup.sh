#!/bin/sh
# Makes a fresh clone runnable, in its own folder: .venv, jars, Airflow home, class data archive.
#
#   scripts/setup.sh           everything
#   scripts/setup.sh python    only the Python half, for which no Java is needed (make lint, make test-fast)
#
# Each step leaves a stamp of what it was made from and is skipped while that has not changed.
set -eu
cd "$(dirname "$0")/.."

stamps=.cache/setup
python=.venv/bin/python

say() { printf '%s\n' "setup: $*" >&2; }
fail() { say "$*"; exit 1; }

# stamped STEP INPUT...: whether the step was done from these inputs (files by content, anything else as it is).
# Sets $now, which `done_with STEP` writes down once the step has succeeded.
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

fits() { "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3; do
        if [ -n "$candidate" ] && fits "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "Tidegate needs Python 3.11 or newer with its venv module and found none: install one (Debian and Ubuntu:" \
        "apt-get install python3 python3-venv, macOS: brew install python@3.12) or set PYTHON to its path."
}

install_packages() {
    # uv installs the lock in half a minute where pip takes several. Where uv cannot be had, or does not reach the
    # index that pip was configured for, pip does it.
    uv=$(sed -n 's/^\(uv==[^ ;]*\).*/\1/p' requirements.txt)
    if "$python" -m pip install --quiet --disable-pip-version-check "$uv" &&
        .venv/bin/uv pip install --quiet --python "$python" -r requirements.txt; then
        return
    fi
    say "uv could not do it; installing with pip instead (several minutes)"
    "$python" -m pip install --quiet --disable-pip-version-check -r requirements.txt
}

case ${1:-all} in
all | python) ;;
*) fail "'$1' is neither nothing nor 'python'." ;;
esac

# What is missing on the machine is said before minutes are spent on the rest.
if ! { [ -x "$python" ] && fits "$python"; }; then
    base=$(find_python)
else
    base=$python
fi
if [ "${1:-all}" = all ]; then
    "$base" -m tidegate.embedded.java || exit
fi

if [ "$base" != "$python" ]; then
    say "making .venv with $("$base" -V)"
    rm -rf "$stamps"
    "$base" -m venv --clear .venv
fi
if ! stamped packages requirements.txt "$("$python" -V)"; then
    say "installing the packages of requirements.txt"
    install_packages
    done_with packages
fi
# uv compiles nothing. Asked each time, because bytecode can be removed without a trace in what was installed.
"$python" -m tidegate.embedded.bytecode
if ! stamped project pyproject.toml "$PWD"; then
    say "installing the project itself, editable"
    # The pinned build backend of the lock, so that nothing else is downloaded.
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
    done_with project
fi
if [ "${1:-all}" = all ]; then
    exec "$python" -m tidegate.embedded
fi
