#!/usr/bin/env bash
# Resolve pyproject.toml anew into requirements/*.txt: exact versions with hashes, for every platform, no address.
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-.venv/bin/python}" -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check uv
compile=("$tools/bin/uv" pip compile --universal --python-version 3.11 --generate-hashes
    --no-annotate --no-header --no-emit-index-url --quiet "$@")
"${compile[@]}" --group build -o requirements/build.txt
"${compile[@]}" pyproject.toml --extra lab --extra flights --group dev -o requirements/lock.txt
# the oldest versions that pyproject.toml allows; tests/test_package.py runs the product on them
"${compile[@]}" pyproject.toml --extra kafka --resolution lowest-direct -o requirements/lowest.txt
# what the core suite needs on every version of Spark, and each version itself: tests/versions
spark=(4.0 4.1 4.2 4.3)
"${compile[@]}" pyproject.toml --group core --no-emit-package pyspark --no-emit-package py4j -o requirements/versions/core.txt
for version in "${spark[@]}"; do
    echo "pyspark==$version.*" |
        "${compile[@]}" - --constraint requirements/versions/core.txt -o "requirements/versions/spark-$version.txt"
done
