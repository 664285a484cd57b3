# Every target makes what it needs: a virtual environment in .venv, the package in it (editable, so that changes of
# Python files need no second installation) and the tools of the target. Nothing outside this folder is touched.
#
#   make demo     a model, its path and a report on a real table, under a minute after installation
#   make studio   the studio in the browser
#   make test     the test suite, in five minutes; make test-all: all of it
#   make quick    what to run before every commit: lint, layers, types, and the tests of arrays
#   make setup    everything for development
#
# Variables: PYTHON (3.11 or later), JOBS (parallel tests), SIZE and SEED (of make stress), SHIFT (of make shake),
# ARGS (passed on to pytest or to the demo), CONSTRAINTS= (empty: newest versions instead of the tested ones).

PYTHON ?= python3
JOBS ?= 2
SIZE ?= 1000
SEED ?= 0
SHIFT ?= 1
ARGS ?=
CONSTRAINTS ?= constraints.txt

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
PIP := $(BIN)/python -m pip --disable-pip-version-check
PINS := $(if $(CONSTRAINTS),-c $(CONSTRAINTS))
INSTALL := $(PIP) install -q $(PINS)
BUILD_PINS := $(if $(CONSTRAINTS),--build-constraint $(CONSTRAINTS))
SOURCES := pyproject.toml CMakeLists.txt $(CONSTRAINTS) $(wildcard src/kernelweave/_loops/*.?pp)

# Where Python may write no bytecode, every process would compile all modules, and rewrite all assertions, anew.
unexport PYTHONDONTWRITEBYTECODE

# Each worker gets a share of the tests in order, so that what modules make is made once, and takes from others when it is done.
PYTEST := -m pytest -n $(JOBS) --dist worksteal

# One BLAS thread: the tests run in parallel processes. SCIPY_ARRAY_API lets scikit-learn test array API dispatch.
test test-rest test-nightly shake test-noext test-oldest quick arrays bench: export OPENBLAS_NUM_THREADS := 1
test test-rest test-nightly shake test-noext test-oldest quick arrays bench: export OMP_NUM_THREADS := 1
test test-rest test-nightly shake test-noext quick arrays: export SCIPY_ARRAY_API := 1
test test-rest test-nightly shake test-noext test-oldest docs: export MPLBACKEND := Agg

# Tests of loops, gram and solvers: what knows arrays only, and what the compiled core is in.
ARRAYS := $(addprefix tests/test_,$(addsuffix .py,allowance loops loop functions gram layers weight_sets smo svm logistic meb ridge rls2 \
  relaxed truncation path certificates results svm_mkl radius alignment))

# Tests that compare numbers with tolerances or with other solvers.
NUMBERS := $(ARRAYS) $(addprefix tests/test_,$(addsuffix .py,cardinality deep deep_views every_learner features kernels \
  learners_on_features losses low_rank maps margin_features multilabel normalizers rkl_convex routes row_features rows \
  several_targets short_cuts sparse statistics streams two_layers))

# The real data sets, where they lie beside the repository. Tests that need them are skipped elsewhere.
ifneq ($(wildcard ../shared/data/.),)
KERNELWEAVE_DATA ?= $(abspath ../shared/data)
export KERNELWEAVE_DATA
endif

.PHONY: help setup demo studio test test-rest test-nightly test-all shake test-noext test-oldest quick arrays lint format types layers \
  docs pages wheel bench claims stress clean
.DELETE_ON_ERROR:

help:
	@sed -n '2,/^$$/s/^#//p' Makefile

# ---- installation ----------------------------------------------------------------------------------------------

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "kernelweave needs Python 3.11 or later, but '$(PYTHON)' is: $$($(PYTHON) --version 2>&1 || echo missing)." >&2; \
	  echo "Name another one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Making the virtual environment $(VENV) ..."
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "'$(PYTHON) -m venv' failed. On Debian and Ubuntu, install the package python3-venv." >&2; exit 1; }
	@$(PIP) install -q --upgrade pip $(PINS)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/package: $(STAMPS)/venv $(SOURCES)
	@echo "Installing kernelweave and its command line (the first time takes about a minute) ..."
	@$(INSTALL) $(BUILD_PINS) -e '.[cli]'
	@$(BIN)/python -c 'from kernelweave._loops import HAS_EXTENSION as ok; print("Compiled core: " + ("yes." if ok \
	  else "no, NumPy takes over (slower). With a C++17 compiler installed: make clean, then again."))'
	@touch $@

# Tools of a target: $(STAMPS)/group-test installs the dependency group "test", and so on.
$(STAMPS)/group-%: $(STAMPS)/package
	@echo "Installing the $* tools ..."
	@$(INSTALL) --group $*
	@touch $@

setup: $(STAMPS)/package
	@echo "Installing all development tools ..."
	@$(INSTALL) --group dev
	@touch $(STAMPS)/group-test $(STAMPS)/group-lint $(STAMPS)/group-docs $(STAMPS)/group-bench
	@echo "Ready. Next: make test. To check every commit: $(BIN)/prek install"

# ---- use -------------------------------------------------------------------------------------------------------

demo: $(STAMPS)/package
	$(BIN)/kernelweave demo $(ARGS)

studio: $(STAMPS)/group-studio
	$(BIN)/kernelweave studio $(ARGS)

# In five minutes on two processors: without browsers and the longest tests, and with some of many combinations.
test: $(STAMPS)/group-test
	$(BIN)/python $(PYTEST) --part=core $(ARGS)

# Browsers, longer tests, and more of many combinations.
test-rest: $(STAMPS)/group-test
	$(BIN)/python $(PYTEST) --part=rest $(ARGS)

# What both leave out, and properties with ten times as many examples.
test-nightly: $(STAMPS)/group-test
	$(BIN)/python $(PYTEST) --part=nightly $(ARGS)

# Every combination, browsers, oldest versions, and the NumPy twins of the compiled core.
test-all:
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory test-rest
	@$(MAKE) --no-print-directory test-nightly
	@$(MAKE) --no-print-directory test-oldest
	@$(MAKE) --no-print-directory test-noext
	@$(MAKE) --no-print-directory pages

# On the NumPy twins of the compiled functions. Everything else sees these functions through the solvers alone.
test-noext: $(STAMPS)/group-test
	KERNELWEAVE_DISABLE_EXT=1 $(BIN)/python $(PYTEST) $(ARRAYS) $(ARGS)

# The tests of numbers that take the `rng` fixture, with another seed: those that hold by luck fail.
shake: $(STAMPS)/group-test
	KERNELWEAVE_TEST_SEED=$(SHIFT) $(BIN)/python $(PYTEST) -q -k seed$(SHIFT) $(NUMBERS) $(ARGS)

# With the oldest versions that pyproject.toml allows, which are made for the oldest Python that it allows. What it does not
# name, pytest among it, comes in the tested version. AnnData is tested here: it does not go with pandas 3.
OLDEST := build/oldest
test-oldest: $(OLDEST)/ready
	$(OLDEST)/bin/python $(PYTEST) -q -m 'not slow' $(addprefix tests/test_,$(addsuffix .py, \
	  annotated_files estimators learners model_selection persistence workflows)) $(ARGS)

$(OLDEST)/ready: $(SOURCES) .ci/oldest $(shell find src -type f -not -path '*/__pycache__/*')
	@echo "Installing the oldest versions in $(OLDEST) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info >= (3, 13))' || { \
	  echo "The oldest versions are not made for this Python. Name 3.11 or 3.12: make PYTHON=... test-oldest" >&2; exit 1; }
	@test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	@$(PYTHON) .ci/oldest $(CONSTRAINTS) > $(OLDEST)/constraints.txt
	@$(OLDEST)/bin/python -m pip --disable-pip-version-check install -q --upgrade pip $(PINS)
	@$(OLDEST)/bin/python -m pip --disable-pip-version-check install -q --no-compile -c $(OLDEST)/constraints.txt $(BUILD_PINS) \
	  '.[anndata,cli,save]' hypothesis pytest pytest-xdist
	@touch $@

quick: $(STAMPS)/group-lint $(STAMPS)/group-test
	@$(MAKE) --no-print-directory -j2 lint layers types arrays

arrays: $(STAMPS)/group-test
	$(BIN)/python $(PYTEST) -q --part=core -m 'not slow' $(ARRAYS) tests/test_kernels.py $(ARGS)

# ---- quality ---------------------------------------------------------------------------------------------------

lint: $(STAMPS)/group-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell

format: $(STAMPS)/group-lint
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: $(STAMPS)/group-lint
	$(BIN)/mypy

layers: $(STAMPS)/group-lint
	PYTHONPATH=src $(BIN)/lint-imports --cache-dir build/import_linter

# Every Python block of the pages, with the packages that some of them need.
pages: $(STAMPS)/group-test $(STAMPS)/group-docs $(STAMPS)/group-pages
	MPLBACKEND=Agg $(BIN)/python -m pytest -q -n0 tests/test_pages.py -k every_block -p no:cacheprovider $(ARGS)

docs: $(STAMPS)/group-docs
	$(BIN)/python -m sphinx -W -E --keep-going -q -b html -d docs/_build/doctrees docs docs/_build/html
	$(BIN)/python docs/_ext/check_offline.py docs/_build/html
	$(BIN)/python docs/_ext/check_pages.py docs/_build/html
	@echo "Open docs/_build/html/index.html"

wheel: $(STAMPS)/venv
	rm -rf dist
	$(PIP) wheel -q --no-deps $(BUILD_PINS) -w dist .
	@ls dist

# Random problems over the whole range of scales, judged in extended precision: make stress SIZE=10000 SEED=0 JOBS=2.
stress: export OPENBLAS_NUM_THREADS := 1
stress: export OMP_NUM_THREADS := 1
stress: $(STAMPS)/group-test
	$(BIN)/python tests/stress.py --size $(SIZE) --seed $(SEED) --jobs $(JOBS) $(ARGS)
	$(BIN)/python tests/raw_scales.py --size $(SIZE) --first $(SEED)

bench: $(STAMPS)/group-bench
	@test -f benchmarks/run.py || { echo "There is no benchmarks/run.py yet." >&2; exit 1; }
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.run $(ARGS)

# Numbers on the front page, in README and in paper.md: computed again, or compared with the results that are kept.
claims: export OPENBLAS_NUM_THREADS := 1
claims: $(STAMPS)/group-docs
	MPLBACKEND=Agg $(BIN)/python -m benchmarks.claims

clean:
	rm -rf $(VENV) build dist docs/_build docs/generated docs/gallery .pytest_cache .ruff_cache .mypy_cache
	find src tests benchmarks docs examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
