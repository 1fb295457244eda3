# Two commands do everything: `make demo` and `make test`.
VENV   := .venv
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: test lint types fuzz clean

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[coordinator,test,lint]'
	touch $@

test: $(READY)
	$(BIN)/python -m pytest -m 'not slow' $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

# Coverage-guided, bounded: SECONDS_EACH for each target (container, envelope, sections).
SECONDS_EACH ?= 60
fuzz: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[fuzz]'
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS_EACH)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
