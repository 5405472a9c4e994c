PYTHON ?= python3
WORKERS ?= 2
MINUTES ?= 10
BIN := .venv/bin
READY := .venv/.ready
SITE := build/site
DOCS_READY := .venv/.docs-ready

.DEFAULT_GOAL := test
.PHONY: test lint slow faults soak demo results docs docs-check docs-links clean

test: lint  ## style, types and all fast tests: every change must pass
	$(BIN)/pytest -n $(WORKERS)

lint: $(READY)  ## style and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src

slow: $(READY)  ## the tests that take minutes
	$(BIN)/pytest -m slow

faults: $(READY)  ## the whole campaign of faults: files, kills, disk errors, extreme numbers
	$(BIN)/pytest tests/faults -m "slow or not slow"

soak: $(READY)  ## random small problems for MINUTES, in one process: memory, files and threads must not grow
	$(BIN)/python tests/faults/soak.py --minutes $(MINUTES)

demo: $(READY)  ## joker and scikit-learn on three real tables: scores on test rows
	$(BIN)/python examples/demo.py

results: $(READY)  ## the results page, its plots and the table of the README, from the committed results files
	$(BIN)/python benchmarks/charts.py
	$(BIN)/python benchmarks/page.py
	$(BIN)/python benchmarks/readme.py
	$(BIN)/python benchmarks/step_model.py

docs: $(DOCS_READY)  ## the site in build/site, with the gallery; a warning is an error
	$(BIN)/python -m sphinx -b html -W --keep-going -q docs $(SITE)

docs-check: $(DOCS_READY)  ## runs the code of every page, docstring and example, and the server of the page on serving
	$(BIN)/pytest -n $(WORKERS) src
	$(BIN)/pytest -n $(WORKERS) -m "slow or not slow" tests/test_docs.py tests/test_reference_pages.py tests/test_examples.py tests/test_serving_page.py
	JOKER_GALLERY=0 $(BIN)/python -m sphinx -b doctest -q docs build/doctest

docs-links: $(DOCS_READY)  ## asks every address of the site; needs a network
	JOKER_GALLERY=0 $(BIN)/python -m sphinx -b linkcheck -q docs build/links

clean:
	rm -rf docs/gallery docs/api/generated
	rm -rf .venv build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

$(DOCS_READY): $(READY)
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev,docs]'
	touch $@
