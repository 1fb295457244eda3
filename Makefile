# `make test` sets everything up by itself and runs all tests; `make ci` is what has to pass before anything lands.
# `make help` lists what there is: each target that has a line behind `##`.
VENV   := .venv
PYTHON := $(or $(PYTHON),$(shell tools/python))
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help check test bench bench-check coverage demo demo-packages lint types docs faults bookworm trixie newest journeys ci fuzz audit clean deb deb-lint deb-reproducible deb-exposure systemd-test systemd-test-qemu

# What is downloaded is held against hashes (tools/hashes), and nothing else is taken along; then this repository itself.
PINNED = install --quiet --disable-pip-version-check --require-hashes --no-deps -r
OURS   := install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .

# Four times as many tests at a time as there are processors: journeys wait most of their time. WORKERS=0 runs them one after the other
# in one process, as a debugger wants it. A file stays with one worker, in its order (tests/order.py): what its tests
# share is made once, and nobody meets a world that a later test has changed. ARGS is for pytest.
WORKERS ?= $(shell echo $$((4 * $$(nproc))))
# In CI a run's examples are always the same ones, and no other run's (tests/examples.py).
SEED    := 0
PYTEST   = -m pytest --numprocesses=$(WORKERS) --dist=loadfile $(if $(CI),--hypothesis-seed=$(SEED))
# A test starts many interpreters: each would compile all that it imports. WORKERS is a word of programs that tests start, too.
unexport PYTHONDONTWRITEBYTECODE WORKERS

help: ## this list
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 27

$(READY): pyproject.toml tests/constraints/newest.txt
	tools/system-packages test
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip $(PINNED) tests/constraints/newest.txt
	$(BIN)/pip $(OURS)
	touch $@

# Each test of stored state on one of the databases; on the other by `make faults`, and by `make trixie` where it is of a
# module that speaks to it. HOLDFAST_DATABASES=both: on both here.
test: export HOLDFAST_DATABASES ?= either
# A quarter of each property's examples: the runs on old libraries look for others, and `make faults` for ten times as many.
test: export HOLDFAST_EXAMPLES ?= 0.25
test: $(READY) ## all tests but those that take minutes each
	$(BIN)/python $(PYTEST) -m 'not slow' $(if $(filter elsewhere,$(COVERED)),$(MEASURED:%=--ignore=%)) $(ARGS)

# The main job from end to end on this machine, in a temporary directory; KEEP=1 leaves it running.
$(VENV)/.demo: pyproject.toml tests/constraints/newest.txt | demo-packages
	@if [ $(READY) -nt pyproject.toml -a $(READY) -nt tests/constraints/newest.txt ]; then touch $@; else \
	    set -ex; $(PYTHON) -m venv $(VENV); \
	    $(BIN)/pip $(PINNED) tests/constraints/newest.txt; $(BIN)/pip $(OURS); \
	    touch $@; \
	fi

# Each time: what was missing may be there now.
demo-packages:
	@tools/system-packages demo

demo: $(VENV)/.demo ## the main job from end to end in a temporary directory; KEEP=1 leaves it running
	@$(BIN)/python -m examples.demo $(if $(filter-out 0 no,$(KEEP)),--keep)

# For every minute: no coordinator and no agent runs, and nobody is asked over a network.
CHECKS := $(wildcard tests/test_*.py) tests/snapshot
check: lint types ## lint, types, the house's own rules, and the document core
	$(BIN)/python $(PYTEST) -q $(CHECKS) $(ARGS)

# By units alone, all of them with the examples of `make test`: where this is run (.ci/run), `make test COVERED=elsewhere`
# leaves them out.
MEASURED := tests/snapshot tests/wire tests/store
coverage: export HOLDFAST_EXAMPLES ?= 0.5
coverage: $(READY) ## branches that units reach in the document core, the wire and the store; not fewer than the floor
	$(BIN)/python $(PYTEST) -m 'not slow' --cov --cov-report=term $(MEASURED) $(ARGS)

# ONLY="publishing growth": programs of benchmarks/goals.toml. On a quiet machine: a figure is what this one gave.
bench: $(READY) ## all benchmarks, docs/performance.md anew; what falls short of its goal (17 minutes)
	tools/system-packages bench
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BIN)/python -m benchmarks.harness run $(ONLY)

bench-check: $(READY) ## what falls short of its goal, of what was measured last
	$(BIN)/python -m benchmarks.harness check

lint: $(READY) ## ruff, check and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## mypy --strict
	$(BIN)/mypy

# The pages under docs/ that are made from the code; tests hold them against it.
docs: $(READY) ## the pages that are made from the code, anew
	$(BIN)/python -m tests.pages --write
	$(BIN)/python -m tests.traceability --write

# Minutes long, as root: power cuts, full and failing disks, kills; properties with ten times their examples; and each test
# of stored state on the database on which `make test` does not run it.
faults: $(READY) ## long runs: kills, power cuts, full disks (root), properties with many examples, each database
	tools/system-packages faults
	$(BIN)/python $(PYTEST) -m slow tests/faults tests/journeys $(ARGS)
	HOLDFAST_EXAMPLES=10 $(BIN)/python $(PYTEST) -m hypothesis $(UNITS) tests/coordinator $(ARGS)
	HOLDFAST_DATABASES=other $(BIN)/python $(PYTEST) -m 'not slow and not hypothesis' tests/coordinator $(ARGS)

# The same code on Debian's library versions (tests/constraints/); a coordinator asks for Debian 13's.
.venv-%/.ready: tests/constraints/%.txt pyproject.toml
	tools/system-packages test
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/pip $(PINNED) $<
	.venv-$*/bin/pip $(OURS)
	touch $@

UNITS := tests/snapshot tests/store tests/wire tests/agent tests/holdfast
# Of the modules that call a library (tests/boundaries.py): what we decide ourselves is the same with any version.
BOUNDARIES := snapshot wire agent holdfast
bookworm trixie: export HOLDFAST_EXAMPLES ?= 0.2
bookworm: SEED := 12
trixie: SEED := 13
trixie: export HOLDFAST_DATABASES ?= other

# All of the store: in it nothing is far from LMDB.
bookworm: .venv-bookworm/.ready ## what calls a library, on Debian 12's versions
	files=$$(.venv-bookworm/bin/python -m tests.boundaries --without operator $(BOUNDARIES)) && \
	    .venv-bookworm/bin/python $(PYTEST) -m 'not slow' tests/store $$files $(ARGS)

# But the store: its libraries are of the same versions as Debian 12's (tests/test_constraints.py).
trixie: .venv-trixie/.ready ## what calls a library, on Debian 13's versions
	files=$$(.venv-trixie/bin/python -m tests.boundaries $(BOUNDARIES) coordinator) && \
	    .venv-trixie/bin/python $(PYTEST) -m 'not slow' $$files $(ARGS)

# The newest versions are those of `make test`.
newest: test

# An agent with Debian 12's libraries through whole lives: by itself, and beside a coordinator with the newest.
WITH_A_COORDINATOR := $(addprefix tests/journeys/test_,two_daemons.py restored_backup.py agent_download.py identity_reset.py)
BY_ITSELF := $(filter-out $(WITH_A_COORDINATOR),$(wildcard tests/journeys/test_agent*.py)) \
    tests/journeys/test_outage.py tests/journeys/test_days.py
journeys: .venv-bookworm/.ready $(READY) ## an agent with Debian 12's libraries through whole lives
	.venv-bookworm/bin/python $(PYTEST) -m 'not slow' $(BY_ITSELF) $(ARGS)
	HOLDFAST_AGENT_PYTHON='$(CURDIR)/.venv-bookworm/bin/python' \
	    $(BIN)/python $(PYTEST) -m 'not slow' $(WITH_A_COORDINATOR) $(ARGS)

# The Debian packages, of the last commit, by Debian's own tools: build/deb/*.deb. Built once: what needs them takes these.
DEB := build/deb
deb: ## the Debian packages of the last commit: build/deb/*.deb
	tools/system-packages package
	packaging/build $(DEB)

deb-lint: deb ## lintian over them
	lintian --allow-root --fail-on error,warning --info $(DEB)/*.changes

# Once more under other conditions: the same bytes as those that are looked at, and booted.
deb-reproducible: deb ## they are built twice, to the same bytes
	packaging/reproduce $(DEB)

# What a taken-over daemon could still do, as systemd counts it: at most 1.5 of 10.
deb-exposure: ## what a taken-over daemon could still do, as systemd counts it
	tools/system-packages package
	packaging/exposure 15

# The packages on Debian 12 and 13 under systemd: machines are booted, and things broken in them (root). One line a step.
# STEPS=--list names them, STEPS="--until NAME" ends early, STEPS=--hold leaves the machines up after a failure.
systemd-test: deb ## the packages on Debian 12 and 13 under systemd (root)
	tools/system-packages systemd
	$(PYTHON) -m tests.systemd --packages $(DEB) $(STEPS)

# The same packages in an emulated machine whose power is really lost (root). Slow: no hardware helps.
systemd-test-qemu: deb ## the same where the power is really lost (root, slow)
	tools/system-packages qemu
	$(PYTHON) -m tests.systemd.powerloss --packages $(DEB) $(STEPS)

ci: ## what has to pass before anything lands
	.ci/run

# Coverage-guided, bounded: SECONDS_EACH for each target (container, envelope, sections).
SECONDS_EACH ?= 60
fuzz: $(READY) ## coverage-guided fuzzing, bounded
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[fuzz]'
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS_EACH)

.venv-audit/bin/pip-audit:
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/pip install --quiet --disable-pip-version-check pip-audit

# Not part of `make ci`: it asks sources beyond a package index. Exit status 75: none could be asked.
audit: .venv-audit/bin/pip-audit ## known vulnerabilities in the libraries that the tests pass with
	$(PYTHON) tools/audit .venv-audit/bin/pip-audit

clean: ## away with all that commands have made here
	rm -rf .venv .venv-* build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
