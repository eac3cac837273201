# make test    builds .venv when needed, then lints, type-checks and runs the suite
# make gpu     what needs a GPU: tests/gpu and the benchmarks
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: test lint types gpu clean

test: lint types
	$(BIN)/python -m pytest -q -n auto

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/basedpyright

gpu: $(READY)
	$(BIN)/python -m pytest -q tests/gpu -rs

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade "pip>=25.1"
	$(BIN)/python -m pip install -q -c constraints.txt -e . --group dev
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
