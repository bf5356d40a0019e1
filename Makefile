# Two commands do everything on a fresh machine with Python 3.11, gcc, make and git.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test lint clean

help:
	@echo "make demo         quantize a real network and measure the integer program"
	@echo "make test         all tests, ruff, pyright, the layering test"
	@echo "make clean        remove the environment and caches"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@ $(VENV)/.installed

demo: $(VENV)/.installed
	@$(BIN)/python examples/digits/demo.py

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest
	$(MAKE) --no-print-directory lint

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python src


clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
