# Everything is installed into .venv/; you need only Python, gcc and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help install demo docs test lint system test-fresh test-all test-data test-oldest test-bare coverage mutate fuzz \
        lock audit bench release clean

help:
	@echo "make install    create .venv/ with the command .venv/bin/twoway and all development tools"
	@echo "make demo       set up, then learn from a survey with holes and compare its answers with the truth"
	@echo "make lint       set up, then check format, style and types"
	@echo "make test       set up, then test"
	@echo "make test-fresh make test in RUNS fresh clones (10), with each of PYTHONS in turn (3.11, 3.12, 3.13)"
	@echo "make test-all   all tests, including slow ones, the oldest allowed versions and no optional extras"
	@echo "make coverage   the share of lines and branches that the tests run"
	@echo "make mutate     the share of small changes to the code that the tests detect (hours)"
	@echo "make lock       pin the newest versions for development; make audit checks them for known vulnerabilities"
	@echo "make test-data  slow tests on real data in the folder TWOWAY_DATA"
	@echo "make fuzz       fuzzers of files and questions, FUZZ_SECONDS each (60)"
	@echo "make bench      the benchmarks; rewrites docs/benchmarks.md"
	@echo "make docs       the documentation as a site; open site/index.html"
	@echo "make release    build the source distribution and the wheel into dist/, and test them in an empty environment"

# Stamps: set-up runs again only when its inputs have changed.
.venv/.users: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# The locked versions or, if this Python is too new for them, the newest that the bounds allow. uv installs them in a tenth of
# pip's time, and takes a pin with an extra for the package without it.
.venv/.developers: pyproject.toml requirements-dev.lock
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.8"
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements-dev.lock || \
	echo "the locked versions are not available: installing the newest compatible ones"
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable ".[dev]"
	@touch .venv/.users $@

install: .venv/.developers

demo: .venv/.users
	$(BIN)/twoway demo

lint: .venv/.developers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Requirements of some tests beyond Python; without them these tests are skipped. Debian's own server is not started.
system:
	@wanted=""; \
	command -v chromium >/dev/null || command -v google-chrome >/dev/null || test -n "$$TWOWAY_CHROMIUM" || wanted="chromium"; \
	command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || wanted="$$wanted postgresql"; \
	test -z "$$wanted" || \
	if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
	  export DEBIAN_FRONTEND=noninteractive; apt-get update -qq; \
	  case "$$wanted" in *postgresql*) apt-get install -y -qq --no-install-recommends postgresql-common && \
	    mkdir -p /etc/postgresql-common/createcluster.d && \
	    echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.d/no-cluster.conf;; esac; \
	  apt-get install -y -qq --no-install-recommends $$wanted; \
	else echo "not installed: $$wanted; tests that need it will be skipped (apt-get install $$wanted)"; fi || \
	echo "could not install all of $$wanted: tests that need it will be skipped"

# A fixed hash seed makes the order of sets reproducible; test-all varies it. Modules are compiled once for all the
# programs that tests start, even where Python was told to keep nothing.
test: .venv/.developers system
	PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n auto --dist worksteal

# The last commit in fresh clones next to this one, so that data are found; a failing clone is kept for inspection.
RUNS ?= 10
PYTHONS ?= python3.11 python3.12 python3.13
test-fresh:
	set -e; set -- $(PYTHONS); for run in $$(seq $(RUNS)); do \
	  clone=$$(mktemp -d ../fresh.XXXXXX); git clone --quiet . $$clone; \
	  echo "== run $$run of $(RUNS), $$1, $$clone"; $(MAKE) --no-print-directory -C $$clone test PYTHON=$$1; \
	  rm -rf $$clone; set -- "$$@" $$1; shift; \
	done

# Search for new examples, forty times as many of each property. A failing one becomes an @example.
test-all: .venv/.developers system test-data test-oldest test-bare
	$(BIN)/pytest -n auto --dist worksteal -m "not data" --hypothesis-profile=thorough

# The oldest versions that pyproject.toml allows, and the newest without optional extras, each in its own environment.
# Ignore warnings of old versions about each other.
OTHER = $(BIN)/uv pip install --quiet --python .venv-$(1)/bin/python
test-oldest: .venv/.developers
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-oldest
	$(call OTHER,oldest) --resolution lowest-direct ".[test]"
	.venv-oldest/bin/python -m pytest -W default tests/unit tests/contracts

test-bare: .venv/.developers
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-bare
	$(call OTHER,bare) . pytest hypothesis polars
	.venv-bare/bin/python -m pytest tests/unit tests/contracts

# Tracers do not see compiled code, so the kernels' tests also run uncompiled. An empty cache makes the compiler run
# under the tracer, too.
UNCOMPILED = tests/unit/kernels tests/unit/data/test_records.py \
  tests/unit/solvers/test_ctd.py::test_contractions_equal_their_twin tests/unit/solvers/test_ctd.py::test_a_sweep_improves_and_knows_where_it_ends \
  tests/unit/solvers/test_ctd.py::test_a_block_falls_until_it_is_solved_and_stays_on_its_simplex
coverage: .venv/.developers system
	rm -rf .kernels
	NUMBA_CACHE_DIR=$(CURDIR)/.kernels $(BIN)/pytest -n auto --dist worksteal --cov --cov-report=
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -W ignore --cov --cov-append --cov-report=term-missing:skip-covered $(UNCOMPILED)

mutate: .venv/.developers
	$(BIN)/python benchmarks/mutation.py

lock: .venv/.developers
	$(BIN)/uv pip compile --quiet --no-strip-extras --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --extra dev pyproject.toml --output-file requirements-dev.lock

audit: .venv/.developers
	$(BIN)/uv tool run pip-audit --strict --require-hashes --disable-pip --requirement requirements-dev.lock

test-data: .venv/.developers
	$(BIN)/pytest -m data

FUZZ_SECONDS ?= 60
fuzz: .venv/.developers
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[fuzz]"
	set -e; for one in model_file tables_file questions; do $(BIN)/python fuzz/run.py $$one --seconds $(FUZZ_SECONDS); done

docs: .venv/.developers
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: .venv/.developers
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	$(BIN)/python benchmarks/core.py

# Build and test the distributions; upload them with: twine upload dist/*
release: .venv/.developers
	$(BIN)/pytest -m "" tests/supply
	rm -rf dist
	$(BIN)/uv build --quiet --out-dir dist

clean:
	rm -rf .venv .venv-* .kernels mutants .fuzz .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-output site dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
