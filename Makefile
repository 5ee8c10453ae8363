# Every target makes its own environment in .venv and needs only Python 3.11, pip and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --constraint constraints.txt --editable

.PHONY: demo test lint bench study clean

demo: .venv/.base
	$(BIN)/python examples/exact_answers.py runs/demo

test: .venv/.test
	$(BIN)/python -m pytest -n auto $(PYTEST_ARGS)

lint: .venv/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.bench
	$(BIN)/python benchmarks/foundation.py
	$(BIN)/python benchmarks/chains.py

study: .venv/.base
	$(BIN)/python benchmarks/estimators.py
	$(BIN)/python benchmarks/reverse.py
	$(BIN)/python benchmarks/learning_free.py

clean:
	rm -rf .venv

.venv/.base: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) .
	touch $@

.venv/.%: .venv/.base
	$(INSTALL) ".[$*]"
	touch $@
