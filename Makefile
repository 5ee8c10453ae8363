# Every target makes its own environment in .venv and needs only Python 3.11, pip and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --constraint constraints.txt --editable

.PHONY: demo test lint bench clean

demo: .venv/.base
	$(BIN)/python examples/exact_answers.py runs/demo

test: .venv/.test
	$(BIN)/python -m pytest -n auto $(PYTEST_ARGS)

lint: .venv/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.base
	$(BIN)/python benchmarks/foundation.py

clean:
	rm -rf .venv

.venv/.base: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) .
	touch $@

.venv/.%: .venv/.base
	$(INSTALL) ".[$*]"
	touch $@
