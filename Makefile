# Everything a developer needs; `make test` sets up what it uses.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
NODE_CLIENTS = tests/clients/node

.PHONY: setup test check check-rest bench lint format proto docs dist clean

setup: $(VENV)/.installed  ## a virtual environment with the package, its extensions and the tools

$(VENV)/.installed: pyproject.toml setup.py $(wildcard sglrouter/_fast/*.pyx sglrouter/_fast/*.pxd)
	./run.sh --packages
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

# Clients of tests/clients; where there is no npm, the tests of those for Node say so and skip.
$(VENV)/.installed-clients: $(VENV)/.installed $(wildcard $(NODE_CLIENTS)/package*.json)
	$(BIN)/python -m pip install --quiet --editable '.[dev,clients]'
	if command -v npm >/dev/null; then npm ci --silent --prefix $(NODE_CLIENTS); fi
	touch $@

PYTEST = $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

test: setup  ## what a change needs first; those that lack something of the machine say what, and skip
	$(PYTEST) --quick $(if $(COVERAGE),--cov=sglrouter --cov-branch)

check: test check-rest  ## all tests: also clients, fuzzing, soak runs, every cut of the corpus

check-rest: $(VENV)/.installed-clients
	$(PYTEST) --rest

bench: setup  ## CPU per token, of the whole system and of its compiled parts
	$(BIN)/python bench/run.py
	$(BIN)/python bench/micro.py
	$(BIN)/python bench/prompt.py
	$(BIN)/python bench/long_prompt.py
	$(BIN)/python bench/parsers.py

lint: $(VENV)/.installed-clients  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: setup  ## regenerates sglrouter/_proto from proto/
	$(BIN)/python proto/generate.py

docs: setup  ## regenerates docs/configuration.md and docs/parsers.md
	$(BIN)/python docs/generate.py

dist: setup  ## sdist, and a wheel that brings libnghttp2 with it
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist dist/*-linux_*.whl
	rm dist/*-linux_*.whl

clean:
	rm -rf build dist $(VENV) $(NODE_CLIENTS)/node_modules *.egg-info sglrouter/_fast/*.c sglrouter/_fast/*.so
