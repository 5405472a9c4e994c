PYTHON ?= python3
WORKERS ?= 2
MINUTES ?= 10
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := test
.PHONY: test lint slow faults soak demo results clean

test: lint  ## style, types and all fast tests: every change must pass
	$(BIN)/pytest -n $(WORKERS)

lint: $(READY)  ## style and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src

slow: $(READY)  ## the tests that take minutes
	$(BIN)/pytest -m slow

faults: $(READY)  ## the whole campaign of faults: files, kills, disk errors, extreme numbers
	$(BIN)/pytest tests/faults tests/data/sources/test_damaged_files.py -m "slow or not slow"

soak: $(READY)  ## random small problems for MINUTES, in one process: memory, files and threads must not grow
	$(BIN)/python tests/faults/soak.py --minutes $(MINUTES)

demo: $(READY)  ## joker and scikit-learn on two problems: a table, and plots in demo/
	$(BIN)/python examples/demo.py

results: $(READY)  ## the results page and its plots, from the committed results files
	$(BIN)/python benchmarks/figures.py
	$(BIN)/python benchmarks/page.py

clean:
	rm -rf .venv build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@
