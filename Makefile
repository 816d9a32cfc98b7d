# `make run` and `make test` work on a fresh machine with Python 3.11, 3.12 or 3.13: each makes what it needs.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c "" 2>/dev/null && echo $$python && break; done)
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: run test test-slow test-thorough test-thorough-today test-exhaustive test-lowest browser check audit bench smoke readme release docs docs-with-versions clean

run: $(VENV)/installed
	$(BIN)/python recipes/rnn_attention.py --out runs/date_converter --restart --overwrite
	$(BIN)/keras-attention translate --model rnn_attention_multi30k_en_de "A dog runs through the snow." \
		--attention runs/a_dog_runs.png

# Two processes; the tests of a file stay in one, which keeps what they have compiled.
PYTEST = $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

# ARGS takes options of pytest, such as ARGS="-k masks"; for some files alone, call pytest itself.
test: $(VENV)/installed-test browser
	$(PYTEST) -m "not slow and not thorough" $(ARGS)

# A process may map 65,530 pieces of memory, and compiled programs take many: so the longer tests run in three parts.
NETWORKS = tests/layers tests/models tests/decoding tests/training tests/finetuning tests/recipes
PIPELINES = tests/pipelines tests/server tests/export tests/cli
NONE_CHOSEN = 5
define in_three
	$(PYTEST) -m $(1) $(2) $(NETWORKS) $(ARGS) || test $$? = $(NONE_CHOSEN)
	$(PYTEST) -m $(1) $(2) $(PIPELINES) $(ARGS) || test $$? = $(NONE_CHOSEN)
	$(PYTEST) -m $(1) $(2) $(addprefix --ignore=,$(NETWORKS) $(PIPELINES)) $(ARGS) || test $$? = $(NONE_CHOSEN)
endef

# Tests that each compile, train or start more than fits there, such as whole fine-tunings. .ci/run runs them as well.
test-slow: $(VENV)/installed-test browser
	$(call in_three,"slow and not thorough")

# The rest: several processes, hundreds of sizes, the benchmarks in the small, and every command of the pages. All of
# them, or with PART=3 the third of PARTS parts; tests/thorough_parts.py says which tests are in which part.
PARTS = 7
test-thorough: $(VENV)/installed-test browser
	$(call in_three,"thorough and not exhaustive",$(if $(PART),--part $(PART)/$(PARTS)))

# The part of this day; after PARTS days, each thorough test has run.
test-thorough-today:
	@part=$$(($$(date -u +%s) / 86400 % $(PARTS) + 1)) && echo "Thorough tests: part $$part of $(PARTS)." && \
		$(MAKE) --no-print-directory test-thorough PART=$$part

# Every point at which a command can be killed or meet an error: an hour. Not part of .ci/run.
test-exhaustive: $(VENV)/installed-test
	$(PYTEST) -m exhaustive $(ARGS)

# The tests with the oldest versions of all packages that setup.py allows.
test-lowest: $(VENV)-lowest/installed-test
	$(MAKE) test VENV=$(VENV)-lowest

# The pages are tested in Chromium. Where it is missing and cannot be installed (as root, on Debian), those are skipped.
browser:
	@command -v chromedriver >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		timeout 300 sh -c "apt-get -qq update && apt-get -qq install -y chromium chromium-driver" >/dev/null; } || \
		echo "No Chromium: the tests of the pages are skipped (apt-get install chromium chromium-driver)."

check: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

# Known weaknesses of the packages that a user gets; asks PyPI.
audit: $(VENV)/installed
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/python -m pip install --quiet pip-audit
	$(BIN)/python -m pip freeze --exclude-editable > $(VENV)-audit/packages.txt
	$(VENV)-audit/bin/pip-audit --requirement $(VENV)-audit/packages.txt --no-deps --disable-pip

# The quick form of each benchmark; tells what is slower than in the last run on the same kind of machine.
bench: $(VENV)/installed-test
	$(BIN)/python benchmarks/bench.py $(ARGS)

smoke: $(VENV)/installed
	for recipe in recipes/*.py; do $(BIN)/python $$recipe --smoke --overwrite || exit 1; done

# The tables of README.md and docs/models.md, from the entries of saved_models.
readme: $(VENV)/installed
	$(BIN)/python .ci/readme_tables.py

# Version, section of CHANGELOG.md, wheel, sdist, commit and tag; or what is missing: make release VERSION=0.2.0
release: $(VENV)/installed-test
	$(BIN)/python .ci/release.py $(or $(VERSION),$(error Which version? make release VERSION=0.2.0))

# The documentation as a web site, in site/.
docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The same beside those of earlier versions, with a menu of them: site/0.2.0/ ...
docs-with-versions: $(VENV)/installed-docs
	$(BIN)/python .ci/versioned_docs.py site

$(VENV)/bin/python:
	$(or $(PYTHON),$(error No Python found. Install Python 3.11, or name yours: make PYTHON=/path/to/python)) -m venv $(VENV)

$(VENV)/installed: setup.py $(VENV)/bin/python
	@echo "Installing into $(VENV); the first time this takes some minutes."
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/installed-test: setup.py $(VENV)/bin/python
	@echo "Installing into $(VENV); the first time this takes some minutes."
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $(VENV)/installed $@

$(VENV)/installed-docs: setup.py $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $(VENV)/installed $@

# Lies over the environment of the other tests, so that only those packages are installed that differ.
$(VENV)-lowest/installed-test: setup.py $(VENV)/installed-test
	$(BIN)/python -m venv $(VENV)-lowest
	ls -d $(abspath $(VENV))/lib/python*/site-packages > $(VENV)-lowest/newest.pth
	mv $(VENV)-lowest/newest.pth $(VENV)-lowest/lib/python*/site-packages/
	sed -n 's/.*"\([a-z][a-z0-9_-]*\)>=\([0-9.]*\)[,"].*/\1==\2/p' setup.py > $(VENV)-lowest/constraints.txt
	$(VENV)-lowest/bin/python -m pip install --quiet --constraint $(VENV)-lowest/constraints.txt --editable ".[test]"
	touch $(VENV)-lowest/installed $@

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-audit build dist runs site *.egg-info
