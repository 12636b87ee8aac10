# Requires Python 3.11 or later, pip and make; every target installs what it needs.
PYTHON ?= python3
VENV := .venv
OLDEST := .venv-oldest
PIP_FLAGS := --quiet --disable-pip-version-check
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo quick test check kernels fuzz test-oldest clean

help:
	@echo "make demo         a demonstration in under a minute: writes out/demo/index.html"
	@echo "make quick        style, types and the fast tests: about 80 seconds"
	@echo "make test         style, types and all tests"
	@echo "make check        style and types only"
	@echo "make kernels      the tests of compiled kernels, with checks of array bounds and interpreted"
	@echo "make fuzz         thousands of damaged files for every reader, 500 of them read by commands: about 20 minutes"
	@echo "make test-oldest  all tests on the oldest supported versions of the dependencies"
	@echo "make clean        remove environments, caches and outputs"

demo: $(VENV)/.installed-plot
	$(VENV)/bin/tikhon demo --out out/demo

quick: check
	$(VENV)/bin/python -m pytest -n $(WORKERS) --quick

test: check
	SCIPY_ARRAY_API=1 $(VENV)/bin/python -m pytest -n $(WORKERS)

check: $(VENV)/.installed-test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

# Compiled code does not notice a write beyond the end of an array. Interpreted, infinities that cancel give warnings.
KERNEL_TESTS := tests/kernels/test_linalg.py tests/kernels/test_row_cholesky.py tests/kernels/test_bounds.py \
	tests/models/test_chain.py tests/models/test_chain_decoder.py \
	tests/kernels/test_hidden_units.py tests/models/test_hidden_units.py tests/models/test_learning.py \
	tests/models/test_by_example.py tests/models/test_sparse_rows.py
FOLDING_TESTS := $(wildcard tests/models/test_folding*.py)
kernels: $(VENV)/.installed-test
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/kernels-with-bounds \
		$(VENV)/bin/python -m pytest -n $(WORKERS) $(KERNEL_TESTS) $(FOLDING_TESTS)
	NUMBA_DISABLE_JIT=1 $(VENV)/bin/python -m pytest -n $(WORKERS) -W ignore::RuntimeWarning $(KERNEL_TESTS)
	NUMBA_DISABLE_JIT=1 $(VENV)/bin/python -m pytest -n $(WORKERS) -W ignore::RuntimeWarning -k enumeration $(FOLDING_TESTS)

fuzz: $(VENV)/.installed-test
	$(VENV)/bin/python -m tests.fuzzing --inputs 5000 --commands 500

# Deprecation warnings are not errors here: old packages use features that newer versions of their dependencies deprecate.
# Old OpenBLAS treats unknown processors as the oldest kind, whose sums depend on memory alignment: it is given one it knows.
KNOWN_CORE := $(shell grep -qsw avx2 /proc/cpuinfo && grep -qsw fma /proc/cpuinfo && echo OPENBLAS_CORETYPE=Haswell)
test-oldest: $(OLDEST)/.installed
	$(KNOWN_CORE) SCIPY_ARRAY_API=1 $(OLDEST)/bin/python -m pytest -n $(WORKERS) -W ignore::DeprecationWarning

clean:
	rm -rf $(VENV) $(OLDEST) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests tools -name __pycache__ -type d -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("tikhon needs Python 3.11 or later: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-plot: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install $(PIP_FLAGS) --editable '.[plot]'
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install $(PIP_FLAGS) --editable '.[test]'
	@touch $@

# Wheels only: a lower bound without a wheel, which would have to be compiled, is not valid.
$(OLDEST)/.installed: pyproject.toml tools/oldest.py
	rm -rf $(OLDEST)
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python tools/oldest.py pyproject.toml > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install $(PIP_FLAGS) --only-binary :all: --constraint $(OLDEST)/constraints.txt \
		--editable '.[test]'
	@touch $@
