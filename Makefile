# agentnb: two commands do all the set-up. They need Python 3.11 or newer, git and make, and nothing else.
#   make demo   executes the quickstart notebook without a key and prints what the run did
#   make test   runs every check and every test: units, architecture, notebooks, and the browser where there is one

# The first Python on the PATH that is new enough and can make environments; or: make PYTHON=/path/to/python
PYTHON := $(shell for python in python3 python3.13 python3.12 python3.14 python3.11 python; do \
	$$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$python && break; done)
BIN := .venv/bin
WORKERS := -n 3 --dist loadfile --no-loadscope-reorder
NOTEBOOKS := $(filter-out %.executed.ipynb,$(sort $(wildcard notebooks/[01]*.ipynb)))
QUICKSTART := notebooks/01_quickstart.ipynb
EXECUTED := notebooks/01_quickstart.executed.ipynb
FUZZED := traces:6000 logs:2000 workflows:2000
NODE_SERVERS := @modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install
# uv takes a sixth of pip's time. It knows nothing of pip's settings, such as an index of a company: where it fails, pip installs.
LOCKED = --constraint requirements.lock --editable ".[$(EXTRAS)]"
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python
INSTALL = { $(PIP) uv && $(UV) $(LOCKED); } >/dev/null 2>&1 || $(PIP) $(LOCKED)

# Options for JupyterLab, such as: make lab LAB=--no-browser. It will not run as root unless told so.
LAB := $(shell test "$$(id -u 2>/dev/null)" = 0 && echo --allow-root)

.PHONY: help demo lab outputs pictures looks check test coverage nightly breaks changed-breaks world bench scores lock clean
help:
	@grep '^#   make' Makefile; echo '    make lab    opens the executed quickstart in JupyterLab'; \
	echo '    make check  runs the linter, the type checker and the import contracts alone'; \
	echo '    make bench  measures speed; make nightly runs more examples, and the tests on every Python there is'; \
	echo '    make breaks breaks one rule after the other in a copy, and tells which no test notices; make changed-breaks: those of'; \
	echo '                files that changed, for 90 s'; \
	echo '    make world  tries real counterparts: MCP servers, proxies, small models; make world WORLD="--only aimock": some'; \
	echo '    make scores TRACES=FOLDER  scores the detectors on labelled traces of your own'; \
	echo '    make outputs, make pictures  renew what the stored notebooks and the README show'; \
	echo '    make looks  takes 64 pictures of cards, questions and tables to look at: make looks LOOKS=FOLDER'

.venv/made:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer with venv was found. Install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python"; exit 1; }
	@echo "Making an environment in .venv with $(PYTHON)"
	@$(PYTHON) -m venv .venv && touch $@

.venv/lab: EXTRAS := lab,stats
.venv/lab: .venv/made pyproject.toml requirements.lock
	@echo "Installing agentnb and JupyterLab (up to a minute the first time)"
	@$(INSTALL) && touch $@

.venv/test: EXTRAS := lab,stats,test
.venv/test: .venv/made pyproject.toml requirements.lock
	@echo "Installing agentnb, JupyterLab and what the tests need (up to two minutes the first time)"
	@$(INSTALL) && touch .venv/lab $@

# Where there is no npm, tests of these servers are skipped.
.venv/mcp-servers: | .venv/made
	@npm install --silent --no-audit --no-fund --prefix $@ $(NODE_SERVERS) || \
		{ rm -rf $@; echo "The MCP servers of npm could not be installed: their tests are skipped"; }

demo: .venv/lab
	@$(BIN)/python notebooks/demo.py $(QUICKSTART) $(EXECUTED)

$(EXECUTED): | .venv/lab
	@$(BIN)/python notebooks/demo.py $(QUICKSTART) $(EXECUTED)

lab: .venv/lab $(EXECUTED)
	@$(BIN)/jupyter lab $(LAB) $(EXECUTED)

# What a person sees who opens a notebook where there is no kernel.
outputs: .venv/lab
	@$(BIN)/python notebooks/stored.py $(NOTEBOOKS)

# The first needs Chromium.
pictures: .venv/test
	@$(BIN)/python tests/browser/pictures.py docs/images
	@$(BIN)/python tests/plots/plot_pictures.py docs/images/plots

# What a person sees, light and dark, in a narrow and a wide window: about three minutes. It needs Chromium; git ignores the folder.
LOOKS := build/looks
looks: .venv/test
	@$(BIN)/python tests/browser/looks.py $(LOOKS)

# Seconds when little has changed: all three keep what they know of unchanged files in folders that git ignores.
check: .venv/test
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# The hundreds of processes that tests start find modules compiled, and tests rewritten, also where Python is told to keep nothing.
test nightly breaks changed-breaks: export PYTHONDONTWRITEBYTECODE :=

# Three workers for two cores, each with whole files: a file's tests share what is slow to start, and many wait. The first time the
# type checker keeps one core busy for a minute: meanwhile the other one rewrites the tests, which each worker would do else, and
# fetches the MCP servers of npm.
test: .venv/test
	@(test -e .mypy_cache || $(BIN)/python -m pytest --collect-only -qq --browser >/dev/null 2>&1) & \
	$(if $(shell command -v npm),$(MAKE) --no-print-directory .venv/mcp-servers &) \
	$(MAKE) --no-print-directory check && wait && $(BIN)/python -m pytest --browser $(WORKERS)

# Lines that the tests of fast rooms run, for each room.
coverage: .venv/test
	@$(BIN)/python tests/coverage_by_room.py

# First all tests, with more examples of every property and new ones; then whether tests notice the night's broken rules; then 10,000
# damaged and hostile files; then the tests as another user, and on each other Python of the range that this machine has, in an
# environment of its own; then real counterparts, also those that take long to build; then mutants of five modules, for a person to read.
nightly: check
	@$(BIN)/python -m pytest -q --browser $(WORKERS) --hypothesis-profile nightly --durations=40 --durations-min=2
	@$(BIN)/python tests/breaks/break_rules.py --nightly
	@for fuzzed in $(FUZZED); do $(BIN)/python tests/fuzz/driver.py $${fuzzed%:*} --files $${fuzzed#*:} || exit 1; done
	@AGENTNB_CONVERSATIONS=5000 $(BIN)/python -m pytest -q tests/agent/test_conversations_never_break.py
	@.ci/as-other-user
	@for version in 3.11 3.12 3.13 3.14; do sh .ci/one-python $$version || exit 1; done
	@$(BIN)/python tests/world/try_counterparts.py --nightly
	@$(TRY_AGENT_FILES)
	@$(BIN)/python tests/world/guidance_experiment.py
	@sh .ci/mutate --for-seconds 300

# One rule after the other is broken in a copy of the tree. Some rules only: make breaks BREAKS="--only budget"
breaks: .venv/test
	@$(BIN)/python tests/breaks/break_rules.py $(BREAKS)

# For a landing: the rules of files that changed, the most dangerous first, as far as the time goes.
changed-breaks: .venv/test
	@$(BIN)/python tests/breaks/break_rules.py --changed --for-seconds 90

# Real counterparts, each in an environment of its own below .venvs/world. With those that take long to build: WORLD=--nightly
# Files of other programs in folders of yours, here and at night: AGENT_FILES="FOLDER ..."
TRY_AGENT_FILES = $(if $(AGENT_FILES),$(BIN)/python tests/world/agent_files.py $(AGENT_FILES))
world: .venv/test
	@$(BIN)/python tests/world/try_counterparts.py $(WORLD)
	@$(TRY_AGENT_FILES)

bench: .venv/test
	@$(BIN)/python benchmarks/run.py
	@$(BIN)/python benchmarks/providers.py
	@$(BIN)/python benchmarks/requests.py
	@$(BIN)/python benchmarks/tables.py
	@$(BIN)/python benchmarks/experiments.py
	@$(BIN)/python benchmarks/permissions.py
	@$(BIN)/python benchmarks/builtin_tools.py
	@$(BIN)/python benchmarks/mcp_servers.py
	@$(BIN)/python benchmarks/plans.py
	@$(BIN)/python benchmarks/contexts.py

# How well detectors agree with labels: make scores TRACES=FOLDER; one third is kept apart: make scores TRACES=FOLDER SCORES="--part train"
scores: .venv/test
	@$(BIN)/python benchmarks/detectors.py "$(TRACES)" $(SCORES)

# One lock for all Pythons of the range.
lock: .venv/lab
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --no-emit-package agentnb --no-header \
	  --no-annotate pyproject.toml --output-file requirements.lock

clean:
	@rm -rf .venv .venvs build .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis .break_rules_cache.json
