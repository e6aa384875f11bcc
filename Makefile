# Everything runs in the project's own .venv; `make setup` makes it, and a set-up tree passes it in a blink.
.DEFAULT_GOAL := help
BIN := .venv/bin
# Most of a test's time is one thread of one process that starts. A file's tests stay together: they share what they start.
WORKERS ?= 2
BESIDE := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: help setup setup-python demo up down status test test-fast test-nightly faults benchmark-gate lint format lock clean

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make everything that a fresh clone lacks: .venv, jars, Airflow home, class data archive.
	@scripts/setup.sh

setup-python:
	@scripts/setup.sh python

demo: setup ## Run the demo: real files, a real Kafka broker, real increments.
	@$(BIN)/python -m demo

up: setup ## Start Airflow, a Kafka broker and a feeder, and say where to log in; they run on.
	@$(BIN)/python -m demo.console up

down: setup-python ## Stop all that `make up` started.
	@$(BIN)/python -m demo.console down

status: setup-python ## Say what of `make up` runs, where, and how to log in.
	@$(BIN)/python -m demo.console status

test: setup ## Run all tests but the nightly matrix; print the slowest twenty and the time of each tier.
	@$(BIN)/pytest $(BESIDE) -m "not nightly" --durations=20

test-fast: setup-python ## Run the tests that need neither a JVM nor Airflow's database; Java is not needed either.
	@$(BIN)/pytest $(BESIDE) -m "not jvm and not airflow and not nightly"

test-nightly: setup ## Run all tests, with the long matrix of kills, components and browsers.
	@$(BIN)/pytest $(BESIDE) --durations=20

faults: setup ## Make forty small faults, one by one, and say which test notices each.
	@$(BIN)/python -m tests.faults

benchmark-gate: setup ## Measure what a gate adds to a flow of a million rows.
	@$(BIN)/python benchmarks/gate_cost.py

# Without a cache: that of lint-imports misses changes in folders that have no __init__.py (dags, plugins).
lint: setup-python ## Check style, types and the direction of imports.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

format: setup-python ## Put imports and layout in order.
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

lock: setup-python ## Pin requirements.in anew in requirements.txt; what is pinned and still fits stays.
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-annotate --no-header \
	    --no-emit-index-url --no-emit-find-links requirements.in -o requirements.txt
	@{ printf '# The pinned lock of requirements.in, for Python 3.11 to 3.13 on every platform.\n'; \
	   printf '# Made by uv, do not edit: change requirements.in, then run `make lock`.\n'; \
	   cat requirements.txt; } >.cache/lock && mv .cache/lock requirements.txt

clean: ## Remove what set-up, tests and linters made (all git-ignored); the lake in .data stays.
	@rm -rf .venv jars .airflow .cache .hypothesis build dist *.egg-info spark-warehouse metastore_db derby.log
	@find . -path ./.data -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
