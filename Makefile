# `make run` and `make test` work on a fresh machine with Python 3.11 or newer: each makes what it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: run test check smoke clean

run: $(VENV)/installed
	$(BIN)/python recipes/rnn_attention.py
	$(BIN)/keras-attention translate --model rnn_attention_multi30k_en_de "A dog runs through the snow." \
		--attention runs/a_dog_runs.png

test: $(VENV)/installed-test
	$(BIN)/python -m pytest $(ARGS)

check: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

smoke: $(VENV)/installed
	for recipe in recipes/*.py; do $(BIN)/python $$recipe --smoke || exit 1; done

$(VENV)/installed: setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/installed-test: setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $(VENV)/installed $@

clean:
	rm -rf $(VENV) build dist runs *.egg-info
