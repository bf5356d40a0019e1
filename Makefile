# Two commands do everything on a fresh machine with Python 3.11, gcc, make and git.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
# A file of tests stays in one process: what it makes once is made once.
PARALLEL ?= -n auto --dist loadfile

.DEFAULT_GOAL := help
# Empty counts as unset. Many tests start processes, and each would compile all of our sources: a second of processor time.
export PYTHONDONTWRITEBYTECODE =
.PHONY: help demo test lint lint-style lint-sources lint-tests docs fuzz faults conformance onnx-conformance guarded clean

help:
	@echo "make demo         quantize a real network and measure the integer program"
	@echo "make test         all tests, ruff, pyright, the layering test"
	@echo "make docs         the site of the documents, in site/; every link is checked"
	@echo "make fuzz         2,000 mutated inputs of each kind, their outcomes; 20,000 random quant programs through"
	@echo "                  zeropoint and C++ MLIR; FUZZ_CASES=300: so many of each;"
	@echo "                  FUZZ_WORKERS, FUZZ_CLUSTER, FUZZ_JOURNAL: see tests/fuzz/survey.py"
	@echo "make faults       each command that writes killed at 300 random moments (FAULT_MOMENTS=50: so many), a full disk"
	@echo "make conformance  the public StableHLO test programs (ZEROPOINT_CONFORMANCE: their folder)"
	@echo "make onnx-conformance  ONNX's own backend suite, by operator (docs/onnx.md)"
	@echo "make guarded      all tests, native code checking every load and store; thousands of programs of one kernel each"
	@echo "make prove        the integer ops that are emitted for each rounding, against exact arithmetic (z3)"
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

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@ $(VENV)/.installed

# TOSA's reference model wants older versions of what other tests use. Where it has no wheel, its tests are skipped.
$(VENV)/.installed-tosa: | $(BIN)/python
	-$(PYTHON) -m venv $(VENV)/tosa && $(VENV)/tosa/bin/python -m pip install --quiet tosa-tools
	@touch $@

demo: $(VENV)/.installed
	@$(BIN)/python examples/digits/demo.py

test: $(VENV)/.installed-test $(VENV)/.installed-tosa
	ZEROPOINT_TOSA=$(or $(ZEROPOINT_TOSA),$(abspath $(VENV)/tosa)) $(BIN)/python -m pytest $(PARALLEL)
	$(MAKE) --no-print-directory lint

# Pyright has one thread: sources and tests are checked at the same time.
lint: $(VENV)/.installed-test
	$(MAKE) --no-print-directory --jobs 2 lint-sources lint-tests lint-style

lint-style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-sources:
	$(BIN)/pyright --pythonpath $(BIN)/python src

lint-tests:
	$(BIN)/pyright --pythonpath $(BIN)/python -p tests/pyrightconfig.json

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

fuzz: $(VENV)/.installed-test
	FUZZ_CASES=$(or $(FUZZ_CASES),2000) FUZZ_WORKERS=$(or $(FUZZ_WORKERS),-1) $(BIN)/python -m pytest -s -n 0 tests/fuzz
	ZEROPOINT_FUZZ_CASES=$${ZEROPOINT_FUZZ_CASES:-$(or $(FUZZ_CASES),20000)} $(BIN)/python -m pytest tests/ir/quant/test_quant_differential.py

faults: $(VENV)/.installed-test
	FAULT_MOMENTS=$(or $(FAULT_MOMENTS),300) $(BIN)/python -m pytest -s -n 0 tests/faults

conformance: $(VENV)/.installed-test
	@$(BIN)/python tests/conformance.py

onnx-conformance: $(VENV)/.installed-test
	@$(BIN)/python tests/onnx_conformance.py

guarded: $(VENV)/.installed-test
	ZEROPOINT_GUARDED=1 ZEROPOINT_KERNEL_CASES=$${ZEROPOINT_KERNEL_CASES:-100} $(BIN)/python -m pytest $(PARALLEL)

prove: $(VENV)/.installed-test
	@$(BIN)/python -m pip install --quiet --editable '.[prove]'
	@PYTHONPATH=tests $(BIN)/python tests/standard/prove.py

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
