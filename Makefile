# Landfall: `make demo` and `make test` do their own set-up on a machine that has Python (3.11 or newer), make and git.
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
FOR ?= run
# The order of sets and hashes is the same in every run of the tests; PYTHONHASHSEED=random makes it another.
export PYTHONHASHSEED ?= 0
# What Python compiled is kept, wherever that is switched off: else each of the hundreds of processes of a test run compiles our code anew.
export PYTHONDONTWRITEBYTECODE =
# Names, versions and hashes only, for every platform: no address of where they came from.
LOCK := $(BIN)/uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --generate-hashes --no-header --no-annotate

# A worker that crashes ends the run, and its test is named: pytest-xdist waits for ever after it has started another in its place.
# With COVERAGE=1 every process of the tests counts the lines of the product that it reaches: tests/support/lines.py.
PYTEST = $(if $(COVERAGE),PYTHONPATH=$(CURDIR)/tests/support/measured:$(CURDIR) )$(BIN)/pytest --numprocesses $(WORKERS) --max-worker-restart 0 --dist loadfile --no-loadscope-reorder
WORKERS := 4
# Tests that start no process: they fail first, and soon.
UNIT := $(addprefix tests/,budget cargo proof retention stick support sync test_tidy.py)

.DEFAULT_GOAL := help
.PHONY: help setup setup-test demo test check lint unit rest times bench long coverage torture containers lock format clean

help: ## these words
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

setup: ## everything that running needs; FOR=edge, shore, hq, pages or sim: that role alone (quick when it is there)
	@$(PYTHON) -m deploy.setup $(FOR)

setup-test:
	@$(PYTHON) -m deploy.setup test

demo: ## set-up, then the voyage of Big Blue on this machine; ARGS="--fresh" begins anew
	@$(PYTHON) -m deploy.setup demo $(ARGS)
	@$(BIN)/landfall demo $(ARGS)

test: setup-test ## set-up, then all that `check` does
	@$(MAKE) --no-print-directory check

check: lint unit rest ## from cheap to expensive: lint and types, tests of pure code, all other tests, in an environment that is set up

lint: | $(BIN)/python
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --diff --quiet .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy

# They wait for nothing: one worker for each of two cores. Each worker collects all tests, which takes seconds.
unit: WORKERS := 2
unit: | $(BIN)/python
	$(PYTEST) $(UNIT) $(ARGS)

# Much of the rest is waiting for other processes, a third of the processors' time with four workers.
rest: WORKERS := 6
rest: | $(BIN)/python
	$(PYTEST) --add-times tests $(UNIT:%=--ignore=%) $(ARGS)

times: | $(BIN)/python ## what the last test run cost, by folder, file, test and fixture; writes tests/support/times.txt
	$(BIN)/python -m tests.support.times

format: | $(BIN)/python ## put imports and layout right
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(BIN)/python:
	@echo 'Not set up yet: run `make test` (or `make setup` to run only) once.' >&2; exit 1

bench: setup-test ## measure the targets; docs/performance.md says how to read it
	$(BIN)/python -m bench $(ARGS)

long: setup-test ## tests of minutes, hundreds of simulated fleets among them: CI runs them after `make test`
	$(PYTEST) -m 'long and not torture' $(ARGS)
	$(if $(COVERAGE),$(BIN)/python -m tests.support.lines)

coverage: ## `make test` and `make long`, and the lines of the product that neither reached
	rm -f .cache/lines
	$(MAKE) --no-print-directory test COVERAGE=1
	$(MAKE) --no-print-directory long COVERAGE=1

torture: setup-test ## the kill and fault tests of hours, and the long ones
	$(BIN)/pytest -m 'long or torture' --timeout=0 -o faulthandler_timeout=0 $(ARGS)

containers: ## the fleet of docker-compose.yml built, started, looked at from outside and ended; ARGS="--engine podman-compose"
	@$(PYTHON) -m deploy.containers $(ARGS)

lock: setup-test ## look up anew which versions fit, and write every lock file
	printf '%s\n' pip setuptools wheel | $(LOCK) - --upgrade --output-file requirements-build.lock
	$(LOCK) pyproject.toml --extra all --upgrade --output-file requirements.lock
	$(foreach role,edge shore hq pages sim,$(LOCK) pyproject.toml --extra $(role) --constraint requirements.lock --output-file requirements-$(role).lock &&) true
	$(LOCK) pyproject.toml --extra all --upgrade --group dev --constraint requirements.lock --output-file requirements-dev.lock
	$(BIN)/python -m deploy.setup.spark --lock
	$(BIN)/python -m deploy.setup.kafka --lock

clean: ## remove what set-up and tests made (not the demo's data)
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
