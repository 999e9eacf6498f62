#!/usr/bin/env bash
# Create .venv with the locked packages and unskew itself, and make sure there is a Java that Spark can run on.
#
# Does nothing, at once, when nothing has changed since it last succeeded. Interrupted, it starts over where needed.
# PYTHON=/path/to/python chooses the interpreter; without it, that of an environment that exists is kept.
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."

venv=.venv
stamp=$venv/.unskew-ready
unset PYTHONPATH PYTHONHOME

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }
fail() { printf '\033[1;31m%s\033[0m\n' "$*" >&2; exit 1; }
if [ ! -t 2 ]; then
    say() { echo "$*" >&2; }
    fail() { echo "$*" >&2; exit 1; }
fi

# What the environment was made from: another lock or another place make it stale.
fingerprint() { { cat requirements/*.txt pyproject.toml scripts/setup.sh; pwd; } | cksum; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

# Whether the environment has an interpreter that works, and the one that is wanted if one is.
has_python() {
    new_enough "$venv/bin/python" && { [ -z "${PYTHON:-}" ] || [ "$(version "$venv/bin/python")" = "$(version "$PYTHON")" ]; }
}

is_ready() { [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(fingerprint)" ] && has_python; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3 python}; do
        if new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# Print how to become root without a question, or fail.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        echo env
    elif sudo -n true 2>/dev/null; then
        echo "sudo -n env"
    else
        return 1
    fi
}

# Install the first of the packages named that apt knows; fail quietly where apt may not be used.
apt_install() {
    local root package
    command -v apt-get >/dev/null && root=$(as_root) || return 1
    say "Installing $1 with apt ..."
    $root DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null >&2 || true
    for package in "$@"; do
        $root DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $package </dev/null >&2 && return
    done
    return 1
}

if is_ready; then
    exit 0
fi
rm -f "$stamp"

python=$(find_python) || {
    [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON is not a Python 3.11 or newer."
    apt_install "python3 python3-venv" || true
    python=$(find_python) || fail "Python 3.11 or newer is needed and was not found. Install it (Debian 12 and Ubuntu 24.04:
apt-get install python3 python3-venv; Fedora: dnf install python3; macOS: brew install python), or say where it is:
make PYTHON=/path/to/python3.12 ..."
}

if ! "$python" src/unskew/java.py >/dev/null 2>&1; then
    apt_install openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless || true
    "$python" src/unskew/java.py >/dev/null || fail "Then run make again."
fi

# A half-made environment, or one of another interpreter, is made anew.
if ! has_python || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$venv"
fi
if [ ! -d "$venv" ]; then
    say "Creating $venv with $("$python" --version) ..."
    if ! "$python" -m venv "$venv" >/dev/null 2>&1; then
        apt_install "python$(version "$python")-venv" python3-venv || true
        rm -rf "$venv"
        "$python" -m venv "$venv" || fail "$python cannot create a virtual environment. Install its venv module
(Debian and Ubuntu: apt-get install python$(version "$python")-venv) and run make again."
    fi
fi

say "Installing the locked packages (a few minutes; PySpark alone is 450 MB) ..."
pip=("$venv/bin/python" -m pip --disable-pip-version-check --no-input)
install=("${pip[@]}" install --no-build-isolation --require-hashes -r requirements/lock.txt)
"${pip[@]}" install --quiet --require-hashes -r requirements/build.txt </dev/null
if [ -t 1 ]; then
    "${install[@]}" </dev/null
else
    "${install[@]}" </dev/null |
        while IFS= read -r line; do
            case $line in "Requirement already"* | Ignoring*) ;; *) printf '%s\n' "$line" ;; esac
        done
fi
"${pip[@]}" install --quiet --no-deps --no-build-isolation -e . </dev/null

fingerprint >"$stamp"
say "Ready: $("$venv/bin/python" --version), $("$venv/bin/unskew" --version)."
