# Every target sets up what it needs by itself; `make help` lists them.

PY := .venv/bin/python
ARTIFACTS := artifacts
PYTEST = $(PY) -m pytest --numprocesses 2 --dist worksteal

# Another Spark or another Python path of the user's must not leak into ours.
unexport PYTHONPATH PYTHONHOME SPARK_HOME SPARK_CONF_DIR SPARK_REMOTE SPARK_CONNECT_MODE SPARK_ENV_LOADED
unexport PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON PYSPARK_SUBMIT_ARGS HADOOP_CONF_DIR

.DEFAULT_GOAL := help
.PHONY: help setup demo test check docs test-all test-connect test-versions bench chaos doctor lock clean

help:  ## show this list
	@echo "make demo and make test are all it takes; nothing needs to be installed first."
	@echo
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup:  ## create .venv with the locked packages; at once when nothing has changed
	@scripts/setup.sh

demo: setup  ## watch skew at work on an embedded Spark (ARGS="--batches 40" passes options on)
	@$(PY) -m unskew demo $(ARGS)

test: check  ## lint, types, import directions, doctests and all tests but the long ones
	$(PYTEST) -m "not slow" $(ARGS)

test-all: check  ## everything, the long tests too
	$(PYTEST) $(ARGS)

test-connect: setup  ## the tests of Spark Connect, on a server of their own
	UNSKEW_TEST_CONNECT=1 $(PY) -m pytest -p no:xdist tests/spark/connect $(ARGS)

test-versions: setup  ## the core suite on each version of Spark and Python, and their table (ARGS="--only 4.0/3.11")
	@$(PY) tests/versions --page docs/reference/compatibility.md $(ARGS)

check: setup docs  ## lint, format, types and documentation only
	$(PY) -m ruff check src tests
	$(PY) -m ruff format --check --quiet src tests
	$(PY) -m mypy

docs: setup  ## build the documentation into artifacts/site; a broken link or a missing page fails
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet

bench: setup  ## measure everything within 20 minutes and write docs/benchmarks.md; NAME=skew one benchmark, whole
ifdef NAME
	@$(PY) -m unskew bench $(NAME) $(if $(QUICK),--quick) $(ARGS)
else
	@$(PY) -m unskew bench all --quick --page docs/benchmarks.md --page README.md $(ARGS)
endif

chaos: setup  ## kill a job on a real Spark KILLS times (SEED=1), judge its rows, write docs/reliability.md
	@$(PY) tests/chaos --kills $(or $(KILLS),1000) --seed $(or $(SEED),1) --page docs/reliability.md $(ARGS)

doctor: setup  ## what is installed, and does it fit together
	@$(PY) -m unskew doctor --spark

lock: setup  ## resolve the dependencies anew into requirements/lock.txt (ARGS=--upgrade for newer ones)
	@scripts/lock.sh $(ARGS)

clean:  ## remove .venv, caches and artifacts
	rm -rf .venv .versions $(ARTIFACTS) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
