# On a fresh machine with only Python 3.11+, run  make demo  or  make test
# the first working Python with a supported version
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
# each worker has a Spark session and services of its own: about 3 GB
WORKERS ?= 4
PYTEST := $(BIN)/pytest -q -n $(WORKERS) --no-loadscope-reorder
# how long each fuzz test of `make soak` runs
SOAK_SECONDS ?= 600
# compile bytecode here: otherwise every start would compile PySpark, sqlglot and pydantic
UV := $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python

# without the banner about the future of Material for MkDocs
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

.DEFAULT_GOAL := help
.PHONY: help demo test fast-start test-fast soak lint format bench generate docs docs-serve console-vendor console-screenshots wheel requirements clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-14s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/runtime ## Set up, prepare a fast start, run examples/quickstart
	@$(BIN)/streamling doctor --fix
	@echo; echo "── examples/quickstart/pipeline.yaml ──"
	@rm -f .venv/demo.db*
	@STREAMLING__STATE_BACKEND__SQLITE__DATABASE_PATH=.venv/demo.db $(BIN)/streamling run examples/quickstart/pipeline.yaml
	@echo; echo "Try next:"
	@echo "  $(CURDIR)/$(BIN)/streamling new my-pipeline      a folder with a pipeline of your own"
	@echo "  $(CURDIR)/$(BIN)/streamling plan examples/quickstart/pipeline.yaml"
	@echo "  $(CURDIR)/$(BIN)/streamling --help"

test: .venv/dev ## Set up, then check format, lint and types and run every test
	@$(MAKE) --no-print-directory --jobs 2 lint fast-start
	$(PYTEST) -m "not soak"

fast-start: .venv/dev
	@$(BIN)/streamling doctor --fix

test-fast: .venv/dev ## Run the tests that need no service and no JVM (under 2 minutes)
	$(PYTEST) -m "not spark and not services and not slow"

soak: .venv/dev ## Run every test: randomised ones for SOAK_SECONDS each, kills as often as for a release
	STREAMLING_TEST_FUZZ_SECONDS=$(SOAK_SECONDS) STREAMLING_TEST_SQL_EXPRESSIONS=2000 STREAMLING_TEST_CDC_SCENARIOS=50 \
		STREAMLING_TEST_KILLS=30 STREAMLING_TEST_INSTANCE_KILLS=3 STREAMLING_TEST_INSTANCE_SEEDS=20 \
		STREAMLING_TEST_HYBRID_ROWS=1000000 STREAMLING_TEST_HYBRID_KILLS=10 \
		STREAMLING_TEST_SIMULATIONS=2000 STREAMLING_TEST_WRITE_PLANS=300 STREAMLING_TEST_AGGREGATE_SEEDS=150 \
		STREAMLING_TEST_TERMS=1000 STREAMLING_TEST_SQL_NODES=400 STREAMLING_TEST_CLICKHOUSE_KILLS=20 \
		STREAMLING_TEST_CLICKHOUSE_SEEDS=300 \
		STREAMLING_TEST_SERVE_KILLS=30 STREAMLING_TEST_SERVE_PIPELINES=20 STREAMLING_TEST_GOOD_PIPELINES=20 \
		STREAMLING_TEST_CHURN_CYCLES=100 \
		$(BIN)/pytest -q

lint: .venv/dev ## Check format, lint, types and import layers
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo > .venv/lint-imports.log || { cat .venv/lint-imports.log; exit 1; }

format: .venv/dev ## Format the code and apply automatic fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: .venv/dev ## Write what is made from declarations: tables and pages in docs/, schemas/
	@$(BIN)/python -m streamling.dev.reference

bench: .venv/dev ## Measure against hand-written PySpark; writes docs/benchmarks.md
	$(BIN)/python -m benchmarks --write docs/benchmarks.md

docs: .venv/docs ## Build the documentation site into site/ (open site/index.html)
	@$(MKDOCS) build --strict
	@echo "open $(CURDIR)/site/index.html"

docs-serve: .venv/docs ## Serve the documentation on http://127.0.0.1:8000 and rebuild it on every change
	@$(MKDOCS) serve --strict --dev-addr 127.0.0.1:8000

console-vendor: ## Bundle the libraries of the console again, after a change of console/package.json (needs Node)
	cd console && npm ci && npm run build

console-screenshots: .venv/dev ## Take the screenshots of docs/console.md again
	$(BIN)/python -m tests.serve.console.screenshots

wheel: .venv/dev ## Build dist/*.whl
	$(BIN)/python -m hatchling build -t wheel

requirements: .venv/dev ## Recompile the pinned, hash-checked requirements
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header requirements/bootstrap.in -o requirements/bootstrap.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header pyproject.toml -o requirements/runtime.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header requirements/docs.in -o requirements/docs.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header requirements/dev.in -o requirements/dev.txt

clean: ## Remove the environment and everything built
	rm -rf .venv dist build site .pytest_cache .mypy_cache .ruff_cache

.venv/python: requirements/bootstrap.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is required; set its path with 'make PYTHON=/path/to/python3'."; exit 1; }
	@echo "Setting up .venv with $$($(PYTHON) --version) (about a minute the first time) …"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	@touch $@

# installing the package compiles the Java classes: about 4 s
.venv/runtime: .venv/python requirements/runtime.txt pyproject.toml $(shell find java -type f)
	@$(UV) --require-hashes -r requirements/runtime.txt
	@$(UV) --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@

.venv/docs: .venv/python requirements/docs.txt
	@$(UV) --require-hashes -r requirements/docs.txt
	@touch $@

.venv/dev: .venv/runtime requirements/dev.txt
	@$(UV) --require-hashes -r requirements/dev.txt
	@touch $@
