# Works on a fresh clone with Python 3.11 or newer, git and make.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# Tests start many processes: each would compile everything anew.
export PYTHONDONTWRITEBYTECODE :=
# A lock names everything, so nothing has to be resolved.
PIP_INSTALL := install -qq --disable-pip-version-check --no-deps
PIP := $(BIN)/python -m pip $(PIP_INSTALL)

.DEFAULT_GOAL := help
.PHONY: help setup browser console demo test-unit test test-all test-frameworks coverage check format lock bench bench-gate docs pages conformance examples mutations shop-week release-check clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.installed  ## Create .venv with everything the tests need (only when a lock changed)

# The demo needs no more than this. To install the package takes its build requirements, and longer than
# all the rest: a path and a script do the same. Modules are compiled when they are first imported.
$(VENV)/.core: requirements/core.lock
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "PYTHON='$(PYTHON)' is not usable: Python 3.11 or newer is needed; set PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Setting up $(VENV) (about 20 packages) ..."
	@"$(PYTHON)" -m venv $(VENV)
	@$(PIP) --no-compile --require-hashes -r requirements/core.lock
	@echo "$(CURDIR)/src" > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/ekiden.pth"
	@printf '#!/bin/sh\nexec "%s" -P -m ekiden.cli "$$@"\n' "$(CURDIR)/$(BIN)/python" > $(BIN)/ekiden
	@chmod +x $(BIN)/ekiden
	@touch $@

# A company's own certificates are often known to the system only.
export UV_SYSTEM_CERTS ?= 1
# uv installs the 170 packages of the tests in a fifth of the time; pip does it where uv cannot.
$(VENV)/.locked: requirements/dev.lock requirements/uv.lock $(VENV)/.core
	@echo "Adding what the tests need to $(VENV) ..."
	@$(PIP) --require-hashes -r requirements/uv.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes -r requirements/dev.lock || \
		{ echo "uv failed: trying pip instead" >&2; $(PIP) --require-hashes -r requirements/dev.lock; }
	@touch $@

$(VENV)/.installed: pyproject.toml $(VENV)/.locked
	@$(PIP) --no-build-isolation -e .
	@touch $@

# A browser for the tests of the console: if there is none, Debian's Chromium without windows.
browser:
	@test -n "$$EKIDEN_TEST_CHROMIUM" || command -v chromium-headless-shell >/dev/null || \
		command -v chromium >/dev/null || \
		{ command -v apt-get >/dev/null && test "$$(id -u)" = 0 && apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
		chromium-headless-shell fonts-noto-cjk >/dev/null; } || \
		{ echo "Install Chromium (apt-get install chromium-headless-shell fonts-noto-cjk), or set EKIDEN_TEST_CHROMIUM" >&2; exit 1; }

# The path makes npm use the Node.js that came with the development requirements.
NPM := PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/npm --prefix console

console/node_modules/.installed: console/package-lock.json $(VENV)/.locked
	$(NPM) ci --loglevel=error
	@touch $@

console: setup pages console/node_modules/.installed  ## Build the console from console/ into the package
	$(NPM) run --silent types
	$(NPM) run --silent check
	$(NPM) run --silent build

demo: $(VENV)/.core  ## A handoff, a rollback, a kill -9 and a resume, the audit; no key needed
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

# Tests kill processes, never the machine: their files need no disk, and no waiting for it.
ifeq ($(TMPDIR)$(shell test -w /dev/shm && echo memory),memory)
test-unit test test-all coverage mutations shop-week: export TMPDIR := /dev/shm
endif
SIDE_BY_SIDE := --processes 4
QUICK := -m "not slow and not conformance"
# What needs no server and no browser.
UNITS := tests/unit tests/contract/test_memory_store.py tests/contract/test_sqlite_store.py \
	tests/contract/test_inline_engine.py

test-unit: setup  ## The inner loop: tests without servers, browsers and kills; 3 minutes
	$(PYTEST) $(SIDE_BY_SIDE) $(QUICK) --budget 3 $(UNITS)

test: setup browser console/node_modules/.installed  ## What every change must pass; 8 minutes
	$(PYTEST) $(SIDE_BY_SIDE) $(QUICK) --budget 8

test-all: setup browser console/node_modules/.installed  ## Every kill, every seed, every screen; 60 minutes
	$(PYTEST) $(SIDE_BY_SIDE) -m "not conformance" --budget 60

# It is taken where code runs in the test's own process; to measure doubles the time of a test.
coverage: setup  ## Branch coverage by the tests of make test that call the code themselves
	$(PYTEST) $(SIDE_BY_SIDE) $(QUICK) --cov --cov-report=term \
		tests/unit tests/contract tests/integration

# Frameworks contradict each other's pins: one environment for each set that agrees.
FRAMEWORKS := main google_adk crewai

$(VENV)-%/.installed: requirements/frameworks/%.lock $(VENV)/.locked
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(@D)
	@$(BIN)/uv pip install --quiet --python $(@D)/bin/python --no-deps --require-hashes -r $< || \
		{ echo "uv failed: trying pip instead" >&2; \
		$(BIN)/python -m pip --python $(@D)/bin/python $(PIP_INSTALL) --require-hashes -r $<; }
	@echo "$(CURDIR)/src" > "$$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/ekiden.pth"
	@touch $@

test-frameworks: $(FRAMEWORKS:%=$(VENV)-%/.installed)  ## Agents of other frameworks, against their newest packages
	@for set in $(FRAMEWORKS); do $(VENV)-$$set/bin/python -m pytest -q --confcutdir=tests/frameworks -o norecursedirs=.git -W default tests/frameworks/$$set || exit 1; done

conformance: setup  ## Another SDK's own tests, fetched and run unmodified
	$(BIN)/python tests/conformance/run.py

examples: setup  ## The same SDK's examples, run with it and with Ekiden, outputs compared
	$(BIN)/python tests/conformance/examples.py

mutations: setup  ## Plant defects on purpose, and see which test catches each
	$(BIN)/python -m tests.mutations.run

shop-week: setup  ## A simulated week of examples/shop on both stores, with kills and outages; 10 minutes
	$(BIN)/python -m examples.shop.week $(WEEK)

release-check: setup  ## Wheel and sdist, tried in new environments; KEEP=dist keeps them; 5 minutes
	$(BIN)/python -m tests.release.check $(if $(KEEP),--keep "$$KEEP") $(OPTIONS)

check: setup  ## Lint, format, types, layers, words
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -n 2 || $(BIN)/mypy  # On a busy machine its workers may come too late.
	$(BIN)/lint-imports
	$(BIN)/python -m tests.style

format: setup  ## Apply the formatter and the safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

RESOLVE := $(BIN)/uv pip compile --quiet --upgrade --generate-hashes --universal --python-version 3.11 \
	--no-emit-index-url --custom-compile-command "make lock"

lock: setup  ## Resolve the locks anew; core.lock has the versions of dev.lock
	$(RESOLVE) --extra dev pyproject.toml -o requirements/dev.lock
	$(RESOLVE) --constraint requirements/dev.lock pyproject.toml -o requirements/core.lock
	echo "uv>=0.9,<1" | $(RESOLVE) - -o requirements/uv.lock
	$(RESOLVE) --constraint requirements/dev.lock requirements/docs.in -o requirements/docs.lock
	for set in $(FRAMEWORKS); do \
		$(RESOLVE) --extra postgres pyproject.toml requirements/frameworks/$$set.in -o requirements/frameworks/$$set.lock; done

bench: setup  ## All figures as JSON, in 3 to 5 minutes; STORE=postgresql://… for workers and growth
	@echo "1 of 5: the floor, fsync, S1 to S5" >&2
	@$(BIN)/ekiden bench --json
	@echo "2 of 5: 200 clients that wait for runs" >&2
	@$(BIN)/python benchmarks/clients.py --requests 1000
	@echo "3 of 5: 200 streamed runs" >&2
	@$(BIN)/python benchmarks/server_load.py --runs 200
	@echo "4 of 5: four workers" >&2
	@$(BIN)/ekiden bench load --sessions 1500 --json $(if $(STORE),--store "$$STORE")
	@echo "5 of 5: growth, 1,000 sessions; benchmarks/growth.py measures more" >&2
	@$(BIN)/python benchmarks/growth.py sessions --most 1000 $(if $(STORE),--store "$$STORE")

bench-gate: setup  ## Fail if Ekiden has become slower; counts instructions, so load does not matter
	@$(BIN)/python -m benchmarks.gate $(GATE:%=--group %) $(if $(JSON),--json) $(if $(UPDATE),--update "$$UPDATE" --reason "$$REASON") $(if $(ADD),--add)

$(VENV)/.docs: requirements/docs.lock $(VENV)/.installed
	@$(PIP) --require-hashes -r requirements/docs.lock
	@touch $@

docs: $(VENV)/.docs  ## Build the documentation site into site/, warnings are errors
	$(BIN)/python -m tests.docs.python_page > docs/python.md
	$(BIN)/zensical build --strict --clean
	@! grep -rlE '(<script[^>]*src|<link[^>]*href)="(https?:)?//' site --include='*.html' || \
		{ echo "These pages load something from the network" >&2; exit 1; }

pages: setup  ## Write everything that is generated in docs/ anew
	$(BIN)/python -m tests.docs.generated

clean:  ## Remove what the other targets made
	rm -rf $(VENV) $(VENV)-* .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis dist build site docs/python.md
