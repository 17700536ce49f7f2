# `make install` makes .venv with the pinned packages, when it is missing or the pins have changed; so does all else.
# Another Python: `make test PYTHON=python3.12`.
PYTHON ?= python3
PORT ?= 5000

# A file named after the pins and this folder, written last: a checkout that touches requirements.lock, an interrupted
# installation and a folder that was moved do not mislead it. A Python that was named must be the one installed.
PINS := $(firstword $(shell (pwd -P; cat requirements.lock .dvc/plots_page.txt) | sha256sum))
VERSION := $(if $(filter file,$(origin PYTHON)),,-$(notdir $(PYTHON)))
INSTALLED := .venv/installed-$(PINS)$(VERSION)
READY := .venv/ready-$(PINS)$(VERSION)
# Of faiss's two builds one is installed: with a CUDA of its own (-cu12, 1.2 GB) only where an NVIDIA driver is.
DRIVER := $(shell command -v nvidia-smi || ls /proc/driver/nvidia/version 2>/dev/null)
LEFT_OUT := ^($(if $(DRIVER),faiss-cpu,faiss-gpu|nvidia-[a-z-]+-cu12))==
RUN := PYTHONUTF8=1 PATH="$(CURDIR)/.venv/bin:$$PATH"
TESTS := PYTHONDONTWRITEBYTECODE= pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: help install repro study studies sweep compare runs restore remote push pull report docs tables test test-all lint \
  bench check-gpu check-locks mlflow mlflow-send lock

STUDIES := $(patsubst stages/%/dvc.yaml,%,$(wildcard stages/*/dvc.yaml))
# What follows in each DVC project: the main line's at the root and each study's.
EACH := for project in . $(STUDIES:%=stages/%); do echo "$$project:"; (cd $$project &&

# Errors that come before an installation: all other targets need .git, compare needs BASE, a study its name.
WITHOUT_GIT := help install report docs tables lint check-gpu mlflow mlflow-send lock .venv/%
$(if $(wildcard .git),,$(if $(filter-out $(WITHOUT_GIT),$(MAKECMDGOALS)),$(error make $(MAKECMDGOALS) needs a git clone, \
  and this folder has no .git: clone annulus, or run git init && git add -A && git commit -m start)))
$(if $(filter compare,$(MAKECMDGOALS)),$(if $(BASE),,$(error give BASE=, a git revision or an experiment, such as HEAD)))
$(if $(filter study sweep,$(MAKECMDGOALS)),$(if $(wildcard stages/$(STUDY)/dvc.yaml),,$(error give STUDY=, one of $(STUDIES))))
$(if $(filter remote,$(MAKECMDGOALS)),$(if $(URL),,$(error give URL=, a folder or an address that `dvc remote add` takes)))

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## /\1\t/p' Makefile | expand -t 14

install: $(READY)  ## .venv with the pinned packages; every target below does this first

repro: $(READY)  ## run what has changed of the main line (dvc repro), and print its numbers
	@! git rev-parse -q --verify refs/exps/exec/EXEC_BASELINE >/dev/null 2>&1 || \
	  echo "a killed dvc exp run left its HEAD here, and its parameters unless you put them back: make restore does both"
	@[ ! -e dvc.lock ] || { [ -s dvc.lock ] && [ -z "$$(tail -c 1 dvc.lock)" ]; } || \
	  { echo "dvc.lock was cut off as DVC wrote it: make restore brings the committed one back, and the cache the rest" >&2; exit 1; }
	@ANNULUS_RESULT=last $(RUN) dvc repro $(ARGS)
	@$(RUN) PYTHONPATH=src python -m annulus_lab.pipeline.mlflow_send || :
	@$(RUN) PYTHONPATH=src python -m annulus_lab.pipeline.result || :

study: $(READY)  ## run what has changed of a study: make study STUDY=law [ARGS=part@moco]
	@cd stages/$(STUDY) && $(RUN) dvc repro $(ARGS)

studies: $(READY)  ## run what has changed of all studies
	@for study in $(STUDIES); do echo "$$study:"; (cd stages/$$study && $(RUN) dvc repro $(ARGS)) || exit; done

sweep: $(READY)  ## all runs of a study in parallel: make sweep STUDY=algorithms [ARGS="--executor slurm"]
	@$(RUN) PYTHONPATH=src python -m annulus sweep $(STUDY) $(ARGS)

HEAD ?= workspace
compare: $(READY)  ## two variants, number by number: make compare BASE=main [HEAD=experiment]
	@$(RUN) PYTHONPATH=src python -m annulus compare $(BASE) $(HEAD) $(ARGS)

runs: $(READY)  ## the workspace, HEAD and the experiments side by side: what differs, headline numbers
	@$(RUN) PYTHONPATH=src python -m annulus runs $(ARGS)

restore: $(READY)  ## after a dvc exp run, also a killed one: parameters, locks and metrics as committed; the rest stays as it is
	@$(RUN) PYTHONPATH=src python -m annulus restore

remote: $(READY)  ## set where push and pull store the data of the main line and of all studies: make remote URL=/data/annulus
	@$(EACH) $(RUN) dvc remote add --local --force --default annulus $(if $(findstring ://,$(URL)),$(URL),$(abspath $(URL)))) || exit; done

push: $(READY)  ## dvc push of the main line and of all studies
	@$(EACH) $(RUN) dvc push $(ARGS)) || exit; done

pull: $(READY)  ## dvc pull of the main line and of all studies
	@$(EACH) $(RUN) dvc pull $(ARGS)) || status=1; done; exit $$status

report: $(READY)  ## one page of all that was measured, beside the papers: data/report/index.html
	@$(RUN) PYTHONPATH=src python -m annulus report $(ARGS)

docs: report  ## the documentation site, without network: build/site/index.html
	@$(RUN) PYTHONPATH="$(CURDIR)/src" OMP_NUM_THREADS=1 NO_MKDOCS_2_WARNING=1 mkdocs build --strict $(ARGS)
	@echo "$(CURDIR)/build/site/index.html"

tables: $(READY)  ## made parts of Markdown anew: numbers of README.md, metrics/ and the studies, public names of src/annulus/PUBLIC.md
	@$(RUN) PYTHONPATH=src python -m annulus_lab.report.readme_numbers
	@$(RUN) PYTHONPATH=src python -m annulus_lab.report.public_page

# Bytecode is written, whatever the environment says: hundreds of processes would each compile the library again.
test: $(READY)  ## the quick tests, several at a time: without whole pipelines (some: make test ARGS="-k ring")
	@$(RUN) $(TESTS) -m "not slow" $(ARGS)

test-all: $(READY)  ## all tests, as in CI (coverage: ARGS=--cov)
	@$(RUN) $(TESTS) $(ARGS)

lint: $(READY)  ## style and format
	@$(RUN) ruff check
	@$(RUN) ruff format --check

bench: $(READY)  ## speed, as ratios within one run: metrics/benchmarks/*.json
	@for bench in tests/benchmarks/bench_*.py; do $(RUN) python "$$bench" || exit; done

check-gpu: $(READY)  ## what of the library is right and fast on this machine's GPU: check-gpu.json, in ten minutes
	@$(RUN) PYTHONPATH=src python -m annulus check-gpu $(ARGS)

check-locks: $(READY)  ## name the stages that an edit makes run again (KEEP=yes: none, the edit was shown to keep all numbers)
	@$(RUN) PYTHONPATH=src python -m annulus_lab.pipeline.locks $(if $(KEEP),--keep)

mlflow: $(READY)  ## MLflow's page over all variants and studies here (another port: make mlflow PORT=5001)
	@$(RUN) PYTHONPATH=src python -m annulus_lab.pipeline.mlflow_page --port $(PORT)

mlflow-send: $(READY)  ## send MLflow the variants here that it lacks (ALL=yes: studies too; ARTIFACTS=yes: encoders too)
	@$(RUN) PYTHONPATH=src python -m annulus_lab.pipeline.mlflow_send $(if $(ALL),--all) $(if $(ARTIFACTS),--artifacts)

# Without `install`, which would make the environment anew before the pins change, and again after.
lock:  ## pin what pyproject.toml asks for (newest versions: make lock ARGS=--upgrade)
	@test -x .venv/bin/uv || $(MAKE) --silent install
	@$(RUN) uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes \
	  --no-emit-index-url --no-header $(ARGS) pyproject.toml -o requirements.lock

# Two makes at a time: the second waits, looks again, and finds what the first has made.
ifndef ALONE
FLOCK := $(if $(shell command -v flock),flock .annulus/install.lock)
$(READY):
	@mkdir -p .annulus && $(FLOCK) $(MAKE) --silent ALONE=yes $@
else

# The environment may be the active one while it is made again: not its own Python makes it.
OUTSIDE := PATH="$$(printf %s "$$PATH" | sed 's|$(CURDIR)/.venv/bin:||g')" $(PYTHON)
$(INSTALLED):
	@$(OUTSIDE) -c '' || { echo "ERROR: no $(PYTHON) here; install Python 3.11 or newer" >&2; exit 1; }
	@$(OUTSIDE) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "ERROR:" \
	  "$(PYTHON) is $$($(OUTSIDE) -V 2>&1), too old; name a Python 3.11 or newer: make test PYTHON=python3.12" >&2; exit 1; }
	@$(OUTSIDE) -c 'import ensurepip, venv' 2>/dev/null || { echo "ERROR: $(PYTHON) cannot make virtual environments;" \
	  "install its venv package (Debian, Ubuntu: sudo apt install python3-venv)" >&2; exit 1; }
	@echo "installing the pinned packages into .venv (several GB, once)"
	@rm -rf .venv && $(OUTSIDE) -m venv .venv
	@awk '/^[^ ]/ { uv = /^uv==/ } uv' requirements.lock > .venv/uv.lock
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r .venv/uv.lock
	@awk '/^[^ ]/ { keep = !/$(LEFT_OUT)/ } keep' requirements.lock > .venv/requirements.lock
	@UV_COMPILE_BYTECODE=1 .venv/bin/uv pip install --quiet --require-hashes --python .venv/bin/python -r .venv/requirements.lock || { \
	  echo "uv failed; trying pip, which takes longer but knows this machine's own settings" >&2; \
	  .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
	  -r .venv/requirements.lock; }  # all are listed; pip would look for hashes of extras, such as coverage[toml]
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --target .venv/vega \
	  -r .dvc/plots_page.txt || echo "without Vega, the page of dvc plots show draws only where there is internet" >&2
	@touch .venv/installed-$(PINS) $@

# `import annulus` and the command `annulus` work once the environment is active.
$(READY): $(INSTALLED)
	@.venv/bin/python -c 'import site, sys; open(site.getsitepackages()[0] + "/annulus.pth", "w").write(sys.argv[1] + "\n")' "$(CURDIR)/src"
	@printf '#!/bin/sh\nexec "$$(dirname "$$0")/python" -m annulus "$$@"\n' > .venv/bin/annulus && chmod +x .venv/bin/annulus
	@touch $@
endif
