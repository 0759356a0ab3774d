# Drover's targets. `make` or `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help setup setup-dev run test test-quick test-here test-processes soak prove lint sabotage bench clean
MAKEFLAGS += --no-print-directory
unexport PYTHONDONTWRITEBYTECODE  # hundreds of processes start in the tests: what is compiled once is kept

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
WAITING := tests/browser tests/run  # real processes, which wait now and then: four files at a time keep two cores busy
SEEDED := tests/chaos/schedules  # hundreds of schedules whose time is an argument
PROVEN := $(addprefix tests/chaos/test_,buffered.py storm.py flood.py followers_away.py disk_full_is_named.py) \
  tests/peers/test_two_hundred_robots.py tests/bench/test_benches_over_a_broker.py  # on demand
FOREIGN := tests/peers  # robots that others wrote
KILLED := tests/chaos tests/bench  # what is killed, or measured for its shape
SLOW := $(FOREIGN) $(WAITING) $(KILLED) $(patsubst %,--ignore %,$(SEEDED) $(PROVEN))

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/run.stamp  ## the environment only (.venv with everything that Drover runs on)

setup-dev: $(VENV)/dev.stamp  ## the same with what tests, lint and drivers of your own need

run: $(VENV)/run.stamp  ## a whole site on this machine; Ctrl-C stops it. DROVER_PORT, DROVER_ROBOTS, DROVER_VAR set it up; RESTORE=file begins with a backup, ROBOTS=vda with robots that others wrote
	@exec $(PY) manage.py run $(if $(RESTORE),--restore "$(RESTORE)") $(if $(ROBOTS),--robots "$(ROBOTS)")

test: test-here test-processes  ## all tests

test-quick: $(VENV)/dev.stamp  ## a first answer while one writes: what needs no database, and some of what does
	@$(PY) -m pytest -q -n 2 -m "not thorough and not processes" $(patsubst %,--ignore %,$(WAITING) $(FOREIGN) $(KILLED))

test-here: $(VENV)/dev.stamp  ## all tests without browser, running copies and robots of others
	@$(PY) -m pytest -q -n 2 $(patsubst %,--ignore %,$(WAITING) $(FOREIGN) $(KILLED))

test-processes: $(VENV)/dev.stamp
	@$(PY) -m pytest -q -n 4 -p tests.side_by_side -m "not quiet" $(SLOW)
	@$(PY) -m pytest -q -n 2 $(SEEDED)
	@$(PY) -m pytest -q -m quiet $(SLOW)

soak: $(VENV)/dev.stamp  ## chaos for an hour: SEED, COUNT and MINUTES say which and how much; progress in var/soak.log
	@mkdir -p var
	@$(PY) -m tests.chaos.soak --seed $(or $(SEED),1) --count $(or $(COUNT),500) --minutes $(or $(MINUTES),0) --log var/soak.log

prove: $(VENV)/dev.stamp  ## what takes its time: floods, storms, two hundred robots, 10,000 buffered messages, a day away, full disks, and known defects
	@$(PY) -m pytest -q -s $(PROVEN)
	@$(MAKE) sabotage

sabotage: $(VENV)/dev.stamp  ## known defects in copies of the tree: the named test of each must turn red
	@$(PY) -m tests.sabotage

lint: $(VENV)/dev.stamp  ## style, types, import directions, missing migrations
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@DEBUG=1 $(PY) -m mypy
	@$(BIN)/lint-imports --no-cache
	@DEBUG=1 $(PY) -W ignore manage.py makemigrations --check --dry-run

bench: $(VENV)/run.stamp  ## measure the pipeline on this machine
	@$(PY) manage.py bench pipeline

clean:  ## remove the environment, caches and the demo's data (.venv, var)
	@if [ -e var/environment ]; then \
	  echo "drover: a copy seems to run on var/. Stop it first (after a crash: remove var/environment)." >&2; exit 1; fi
	rm -rf $(VENV) var .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment. pip's own settings (index, proxy, certificates) come from its environment or configuration.
$(VENV)/made.stamp:
	@python=$$(PYTHON="$(PYTHON)" sh .ci/find-python) && rm -rf $(VENV) && echo "Making $(VENV) with $$python" && \
	  { "$$python" -m venv $(VENV) || { rm -rf $(VENV); \
	    echo "drover: $$python cannot make virtual environments. Install its venv module (Debian: apt install python3-venv)." >&2; exit 1; }; } && \
	  touch $@

$(VENV)/run.stamp: $(VENV)/made.stamp requirements.txt
	@echo "Installing requirements.txt (the first time takes a minute)"
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements-dev.txt
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@
