# Every target makes its own environment in .venv and needs only Python 3.11, pip and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --constraint constraints.txt --editable

.PHONY: demo test docs lint bench speed study paper examples clean browser

demo: .venv/.base
	$(BIN)/tcsis compare ising --side 4 --beta 0.4407 --methods self-normalized,unbiased,autoregressive,gwg,glauber \
	  --out runs/demo --overwrite

test: .venv/.test browser
	$(BIN)/python -m pytest -n auto $(PYTEST_ARGS)

# The report is tested in a real browser; where none can be installed those tests say so and skip.
browser:
	@command -v chromium > /dev/null || (test "$$(id -u)" = 0 && command -v apt-get > /dev/null \
	  && (apt-get install -y -qq chromium || (apt-get update -qq && apt-get install -y -qq chromium)) > /dev/null 2>&1) \
	  || echo "chromium is missing: the browser tests will be skipped; install the package chromium"

docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: .venv/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.bench
	$(BIN)/tcsis bench --out docs/results/bench

speed: .venv/.bench
	$(BIN)/python benchmarks/foundation.py
	$(BIN)/python benchmarks/chains.py

study: .venv/.base
	$(BIN)/python benchmarks/estimators.py
	$(BIN)/python benchmarks/reverse.py
	$(BIN)/python benchmarks/learning_free.py
	$(BIN)/python benchmarks/zoo.py
	$(BIN)/python benchmarks/learned.py
	$(BIN)/python benchmarks/any_time.py
	$(BIN)/python benchmarks/any_time.py speed
	$(BIN)/python benchmarks/marginal.py
	$(BIN)/python benchmarks/ablation.py
	$(BIN)/python benchmarks/paper_presets.py
	$(BIN)/python benchmarks/leaps.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/literature.py
	$(BIN)/python benchmarks/faults.py
	$(BIN)/python benchmarks/mutations.py

paper: .venv/.base
	$(BIN)/tcsis paper --out docs/results/paper

examples: .venv/.examples
	for name in bayesian_networks digits protein variable_selection cuts_and_glasses \
	    phase_diagram; do \
	  $(BIN)/python examples/$$name.py || exit 1; done

clean:
	rm -rf .venv

.venv/.base: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) .
	touch $@

.venv/.%: .venv/.base
	$(INSTALL) ".[$*]"
	touch $@
