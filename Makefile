# Everything runs in the project's own .venv; `make setup` creates it and returns at once if nothing has changed.
.DEFAULT_GOAL := help
BIN := .venv/bin
# A test mostly waits for one thread of the process that it starts. Tests of one file run in one worker: they share fixtures.
WORKERS ?= 2
# Folders and files without a fast test; importing their modules takes seconds.
HEAVY := airflow chaos live status/test_states.py
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: help setup setup-python demo up down status test test-live test-fast test-nightly test-packages s3-server cluster-servers jar nightly-seconds faults benchmark-gate lint format docs lock clean

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Create everything that a fresh clone needs: .venv, Airflow home; jars and class data archive in the user's cache.
	@scripts/setup.sh

setup-python:
	@scripts/setup.sh python

demo: setup ## Run the demo: real files, a real Kafka broker, real increments; with LAKE=s3, its lake is in a bucket of an S3 server, with LAKE=s3://… in a bucket of yours; with ACTS=1, people act on it.
	@$(BIN)/python -m demo $(LAKE:%=--lake %) $(ACTS:%=--acts)

up: setup ## Start Airflow, a Kafka broker and a feeder in the background, and print address and log-in.
	@$(BIN)/python -m demo.console up

down: setup-python ## Stop everything that `make up` started.
	@$(BIN)/python -m demo.console down

status: setup-python ## Print which parts of `make up` run, their addresses, and the log-in.
	@$(BIN)/python -m demo.console status

test: setup ## Run all tests except those of the next four targets; print the slowest twenty and the time of each tier.
	@$(BIN)/pytest $(PARALLEL) -m "not live and not nightly and not packages" --durations=20

test-live: setup ## Run the first steps of the README, the demo, a live Airflow with its scheduler, and killed drivers, and check what they leave.
	@$(BIN)/pytest $(PARALLEL) -m "live and not nightly" --durations=20

# Bytecode is on, so that pytest does not rewrite the assertions of all test files at each start.
test-fast: setup-python ## Run the tests that take a tenth of a second: no JVM, Airflow, Great Expectations, browser, S3 server, command, Delta table.
	@PYTHONDONTWRITEBYTECODE= $(BIN)/pytest $(PARALLEL) $(HEAVY:%=--ignore=tests/%) -m "not jvm and not airflow and not gx and not browser and not s3 and not slow and not nightly and not packages"

NIGHTLY = files=$$($(BIN)/python -m tests.slices $(SLICE)) && $(BIN)/pytest $(PARALLEL) -m nightly --durations=20

test-nightly: setup ## Run the nightly tests; with SLICE=1 to 14 or SLICE=commit a part that takes at most ten minutes.
	@$(NIGHTLY) $$files

test-packages: setup ## Run the tests of the built wheel in environments of their own, for which packages are downloaded; with Airflow 3.1 and 3.2, too.
	@$(BIN)/pytest $(PARALLEL) -m packages --durations=20

jar: setup ## Build the platform's own jar again, after a change of jvm/; needs a JDK.
	@$(BIN)/python -m devstack.build_jar

s3-server: ## Build the S3 server of the tests into the user's cache; needs Go. Without it those tests are skipped.
	@scripts/s3_server.sh build

cluster-servers: ## Put the servers of YARN and Kubernetes for the tests into the user's cache; needs Maven and Go, and ten minutes.
	@scripts/cluster_servers.sh yarn build
	@scripts/cluster_servers.sh kubernetes build
	@scripts/cluster_servers.sh helm build

nightly-seconds: setup ## Run the nightly tests and record how long each file takes, by which slices are balanced.
	@$(NIGHTLY) --junitxml=.cache/nightly.xml $$files; code=$$?; $(BIN)/python -m tests.slices record .cache/nightly.xml; exit $$code

faults: setup ## Apply small faults, one by one, and print which test detects each.
	@$(BIN)/python -m tests.faults

benchmark-gate: setup ## Measure the cost of a gate in a flow of a million rows.
	@$(BIN)/python benchmarks/gate_cost.py

# Without a cache: import-linter's cache misses changes in folders without an __init__.py (dags, plugins).
lint: setup-python ## Check style, types, the direction of imports, the words of identifiers, the advice of errors and calls on files.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python scripts/retired_words.py
	@$(BIN)/python scripts/typed_advice.py
	@$(BIN)/python scripts/file_calls.py

format: setup-python ## Sort imports and format the code.
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

docs: setup-python ## Build the site of the documents in build/docs; a broken link, or a page that is not in its navigation, is an error.
	@$(BIN)/sphinx-build --quiet --fail-on-warning --fresh-env --jobs auto -c docs -d .cache/docs . build/docs
	@echo "file://$(CURDIR)/build/docs/index.html"

lock: setup-python ## Resolve pyproject.toml and requirements.in again into requirements.txt; valid pins stay.
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-annotate --no-header --all-extras --group demo --group dev --group docs \
	    --no-emit-index-url --no-emit-find-links pyproject.toml requirements.in -o requirements.txt
	@{ printf '# The pinned lock of pyproject.toml and requirements.in, for Python 3.11 to 3.13 on every platform.\n'; \
	   printf '# Made by uv, do not edit: change one of them, then run `make lock`.\n'; \
	   cat requirements.txt; } >.cache/lock && mv .cache/lock requirements.txt

clean: ## Remove the output of set-up, tests and linters (all git-ignored); the lake in .data stays.
	@rm -rf .venv .airflow .cache .hypothesis build dist *.egg-info spark-warehouse metastore_db derby.log
	@find . -path ./.data -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
