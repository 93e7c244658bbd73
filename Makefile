# Everything happens in .venv/; nothing but Python, gcc and make is needed beforehand.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help install demo docs test lint unit system test-data bench clean

help:
	@echo "make install    set up .venv/: the command .venv/bin/twoway, and all that a developer needs"
	@echo "make demo       set up, then learn handwritten digits with half their pixels hidden"
	@echo "make test       set up, then lint, type-check and test"
	@echo "make test-data  the slow tests on real data (TWOWAY_DATA, else ../shared/data)"
	@echo "make bench      the benchmarks; rewrites docs/benchmarks.md"
	@echo "make docs       the documentation as a site; open site/index.html"

# Stamps: set-up runs again only when what it depends on has changed.
.venv/.users: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/.developers: .venv/.users
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@

install: .venv/.developers

demo: .venv/.users
	$(BIN)/twoway demo

lint: .venv/.developers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# What some tests need beyond Python; without it they are skipped, with a reason. No server of Debian's own is started.
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
	else echo "not here: $$wanted; the tests that need it will be skipped (apt-get install $$wanted)"; fi || \
	echo "not all of $$wanted could be installed: the tests that need it will be skipped"

# Lint and tests side by side: both are mostly one core's work.
test: .venv/.developers system
	$(MAKE) --jobs 2 --output-sync=target --no-print-directory lint unit

unit:
	$(BIN)/pytest -n auto --dist loadfile

test-data: .venv/.developers
	$(BIN)/pytest -m data

docs: .venv/.developers
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: .venv/.developers
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	$(BIN)/python benchmarks/core.py

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-output site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
