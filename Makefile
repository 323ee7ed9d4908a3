# make setup | demo | test | bench | lock | help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
VALIDATORS := .venv-validators/.ready
CORES ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONNOUSERSITE := 1

.PHONY: help setup demo test check unit demo-twice train-demo cluster cluster-demo bench fix lock clean-demo report-example

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY)  ## make .venv with the pinned requirements

$(READY): envs/core.txt envs/hubs.txt envs/models.txt envs/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name one with: make setup PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -q -r envs/core.txt -r envs/hubs.txt -r envs/models.txt -r envs/dev.txt
	$(BIN)/python -m pip install --disable-pip-version-check -q --no-deps -e .
	@touch $@

$(VALIDATORS): envs/validators.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --disable-pip-version-check -q -r envs/validators.txt
	@touch $@

demo: $(READY)  ## run the whole chain on real images with real small models
	$(BIN)/python -m medheb run --config config/demo.yaml --cores $(CORES)

test: check unit  ## style, types, workflow checks and all tests

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/mypy
	$(BIN)/python -m medheb schema
	$(BIN)/snakemake --lint

unit: $(READY) $(VALIDATORS)
	$(BIN)/pytest -n $(CORES) -m "not slow" --ignore=tests/cluster

demo-twice: $(READY)  ## the demo once more, in another folder, on one core: same roots, scores and ranks as `make demo`
	$(BIN)/pytest -v -m slow tests/end_to_end

train-demo: $(READY)  ## after make demo: a small checkpoint trained on its training split, against itself before; minutes
	$(BIN)/pytest -v -s -m slow tests/train

cluster: $(READY)  ## tests against a real Slurm started on this machine; needs root, and says what else
	$(BIN)/pytest -v -m "not slow" tests/cluster

cluster-demo: $(READY)  ## the demo once more, through that Slurm: same roots, scores and ranks as `make demo`; 12 to 30 minutes
	$(BIN)/pytest -v -m slow tests/cluster

bench: $(READY)  ## print figures of speed and memory as `bench <name> <figure>=<number>`
	$(BIN)/python -m pip install --disable-pip-version-check -q -r envs/bench.txt
	$(BIN)/python benchmarks/run.py

report-example: $(READY)  ## a report of the full benchmark from generated scores, in results/report-example
	$(BIN)/python -m medheb report-example

fix: $(READY)  ## mend formatting, generated schemas and the default configuration
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/snakefmt Snakefile workflow
	$(BIN)/python -m medheb schema --fix

lock:  ## pin envs/*.in and all that they bring into envs/*.txt
	$(PYTHON) scripts/lock.py

clean-demo:  ## delete the demo's results
	rm -rf results/demo
