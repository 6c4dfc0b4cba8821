# The everyday commands. All of them need only Python 3.11, make and the package registries.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOG := $(VENV)/setup.log
UV_VERSION := 0.13.9
# Set PYTHON=/path/to/python3.11 if it is not on the PATH.
PYTHON ?= python3.11

.PHONY: help setup demo test check fmt clean
.DEFAULT_GOAL := help

help:
	@echo "make setup   install everything into $(VENV)"
	@echo "make demo    run the whole pipeline on MovieLens 100k"
	@echo "make test    formatting, lint, types, import order and all tests"
	@echo "make check   the same without the tests"
	@echo "make fmt     format the code and mend what lint can mend"
	@echo "make clean   remove $(VENV) and the caches of the tools; data is removed by 'headrace down --wipe'"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { \
	    echo "setup: no $(PYTHON) on the PATH; install Python 3.11, or run make with PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { \
	    echo "setup: $(PYTHON) is $$($(PYTHON) -V), Headrace needs Python 3.11 (Flink's packages allow no newer one)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setup: installing packages into $(VENV), about 7 GB; output in $(LOG)"
	@$(BIN)/python -m pip install --disable-pip-version-check uv==$(UV_VERSION) >$(LOG) 2>&1 \
	    && $(BIN)/uv pip install --python $(BIN)/python -c constraints.txt -b constraints.txt -e '.[dev]' >>$(LOG) 2>&1 \
	    || { tail -n 30 $(LOG) >&2; echo "setup: failed; the whole output is in $(LOG)" >&2; exit 1; }
	@touch $@
	@echo "setup: done; '$(BIN)/headrace --help' lists the commands"

demo: setup
	@$(BIN)/headrace demo

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check
	$(BIN)/pytest

fmt: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.headrace/*' -prune -exec rm -rf {} +
