# Two commands on a fresh machine: `make run` and `make test`. Everything is set up in .venv of this checkout.
.DEFAULT_GOAL := help
SHELL := /bin/sh
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
WORKERS ?= 3
FAILED := .venv/failed-tests
# Without bytecode every process that the tests start would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test test-slow check setup setup-run setup-docs lock format lint types contracts fuzz crash prove soak bench \
	test-scale test-clients test-live eval e2e spec-mutants docs release clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: setup-run ## set up and show the demo: no key, no network
	@$(BIN)/hames demo

test: setup ## set up and run the tests; what failed is run once more, alone
	@rm -f $(FAILED)
	FAILED_TESTS=$(FAILED) $(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m 'not slow' || { \
		test -s $(FAILED) || exit 1; \
		echo "== once more, one at a time: a test that passes only now depends on the load of the machine, a defect"; \
		$(PYTEST) -m 'not slow' @$(FAILED); }

test-slow: setup ## run the tests that are too slow for `make test`
	$(PYTEST) -n $(WORKERS) --dist loadfile -m slow

check: setup format lint types contracts test ## everything a change must pass

setup: ## set up for development
	@python=$$(scripts/python.sh) && "$$python" scripts/setup.py dev
	@scripts/system.sh bwrap rg git tmux zsh fish chromium node npm postgres

setup-run: # set up for running only
	@python=$$(scripts/python.sh) && "$$python" scripts/setup.py run
	@scripts/system.sh bwrap rg

setup-docs:
	@python=$$(scripts/python.sh) && "$$python" scripts/setup.py docs

lock: setup ## regenerate the lock files
	scripts/lock.sh

format: setup
	$(BIN)/ruff format --check .

lint: setup
	$(BIN)/ruff check .

types: setup
	$(BIN)/pyright

contracts: setup ## check which package may import which
	$(BIN)/lint-imports

fuzz: setup ## fuzz everything that parses input, for a long time
	HYPOTHESIS_PROFILE=long $(PYTEST) tests/fuzz tests/property -n $(WORKERS) --dist loadfile

crash: setup ## kill the process at random points and compare what is saved
	HAMES_KILLS=$${HAMES_KILLS:-400} $(PYTEST) tests/crash -n $(WORKERS) --dist loadfile

prove: setup ## damage logs, fail disks, cut the power and kill, thousands of times each; goes on where it was interrupted
	$(BIN)/python scripts/prove.py --workers $(WORKERS)

test-scale: setup ## test threads in PostgreSQL for longer: servers and nodes killed many times, the fence in many orders
	@scripts/system.sh pgbouncer systemd-analyze openssl
	HAMES_THREADS=$${HAMES_THREADS:-10000} $(PYTEST) --timeout 3600 tests/contract/test_store.py tests/property/test_postgres_fence.py tests/integration/test_postgres_store.py \
		tests/integration/test_shared_servers.py tests/scale
	$(PYTEST) tests/protocol -k gateway
	$(BIN)/python scripts/prove_nodes.py --kills $${HAMES_KILLS:-400}

soak: setup ## run thousands of turns on one server and check its memory afterwards
	HAMES_LIVES=$${HAMES_LIVES:-3000} $(PYTEST) tests/soak -s

bench: setup ## measure times, compared with another program in the same run
	@for file in bench/[a-z]*.py; do echo "== $$file"; $(BIN)/python "$$file" || exit; done

test-clients: setup ## test with the real clients of other projects
	$(PYTEST) tests/clients

test-live: setup ## test with a real local model, without network
	$(PYTEST) tests/live

eval: setup ## play the solutions of all evaluation tasks through every client, and check them with Harbor
	$(PYTEST) tests/evals -n $(WORKERS)

spec-mutants: setup ## break every promise of specs/ on purpose and check that its test fails (JOBS=n)
	$(BIN)/python scripts/spec_mutants.py --jobs $${JOBS:-2}

e2e: setup ## test terminal and browser as a person uses them
	@# test_a_real_browser… is a selection of what npm runs below
	$(PYTEST) tests/e2e -k "not test_a_real_browser_talks_to_the_real_server" -n $(WORKERS) --dist loadgroup
	cd web && npm install --no-save && npm run e2e -- --maxWorkers=$(WORKERS)

release: setup ## build and test wheel and sdist, write the release notes
	$(BIN)/python scripts/release.py

docs: setup-docs ## build the documentation
	$(BIN)/zensical build

clean: ## remove what set-up and the tests created
	rm -rf .venv .hypothesis .ruff_cache .import_linter_cache dist build
