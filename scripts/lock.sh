#!/usr/bin/env bash
# Resolve pyproject.toml anew into requirements/lock.txt: exact versions with hashes, for every platform, no address.
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-.venv/bin/python}" -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check uv
"$tools/bin/uv" pip compile pyproject.toml --extra flights --group dev \
    --universal --python-version 3.11 --generate-hashes \
    --no-annotate --no-header --no-emit-index-url --quiet "$@" -o requirements/lock.txt
