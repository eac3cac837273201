# make train   builds .venv when needed, then trains on a generated sample: files to report in minutes
#              make train ARGS="configs/mnist_pape.py --sample --work-dir work_dirs/mine"
# make test    builds .venv when needed, then lints, type-checks and runs every test: each value of each parameter
# make test-all  make test, then the other combinations of parameters and the slow tests
# make headless  the built wheel on a server without libGL: a Debian of its own; needs root and debootstrap
# make cell    measures one cell of a published table again, and says whether its numbers are the same; minutes
#              (make cell ARGS="thesis:table3 --rows None --seeds 1")
# make matrix  the suite's core on each supported Python found, with the oldest and the newest torch, and all samples without extras: docs/reference/machines.md
# make soak    kills, faults, ranks, a simulated run of 12 hours, damaged files and 16 bit for an hour and a half
# make mutations  40 planted faults: whether make test and make test-all notice each; a quarter of an hour
# make integrations  timm and transformers, in .venv-integrations: our encodings in their models, their weights in ours
# make kernels  the fused kernels, in .venv-kernels: interpreted, and compiled for GPUs that are not here; an hour
# make exports  graphs of models, .pt2 and .onnx, of encodings and tasks beside the models: half an hour
# make elsewhere  steps of all kinds of configs on a device that is not there: what a GPU would wait for; minutes
# make docs    the documentation as a site, build/site; a dead link or a page that is nowhere in its list ends it
# make browser the explorer's page and a report in a real Chromium (Debian's: apt install chromium), driven by playwright
# make devkit  nuScenes' devkit in an environment of its own (.devkit), and our numbers beside its
# make gpu     figures of a GPU and tests/gpu, within nine minutes, into build/gpu (ARGS="--out FOLDER"); installs nothing
#              where torch, mmengine and a GPU are already there: make gpu PYTHON=/path/to/python
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# each worker takes the files in turn, so that what a file prepares is prepared once
WORKERS := -n auto --dist worksteal
# without cached bytecode each worker of a test run compiles all tests and modules anew, which takes half a minute
unexport PYTHONDONTWRITEBYTECODE

.PHONY: train test test-all lint types gpu headless cell matrix soak mutations integrations devkit kernels elsewhere exports docs browser clean

train: $(READY)
	$(BIN)/python -m ndformer train $(or $(ARGS),configs/modelnet40_plain_pape.py --sample --overwrite)

cell: $(READY)
	$(BIN)/python -m ndformer reproduce $(or $(ARGS),toys:1d-1block --rows PaPE --seeds 0)

test: lint
	@# types beside the tests: the type checker uses one core; those of the tests themselves are in test-all
	$(BIN)/basedpyright -p package-types.json > $(VENV)/types.txt & types=$$!; \
	$(BIN)/python -m pytest -q $(WORKERS); tests=$$?; \
	wait $$types; types=$$?; cat $(VENV)/types.txt; exit $$((tests + types))

test-all: test types
	$(BIN)/python -m pytest -q $(WORKERS) --rest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/basedpyright

SEES_GPU := -c "import sys, torch, mmengine; sys.exit(not torch.cuda.is_available())"

gpu:
	if $(PYTHON) $(SEES_GPU) 2>/dev/null; then PYTHONPATH=$(CURDIR) $(PYTHON) tools/benchmarks/gpu.py $(ARGS); \
	else $(MAKE) $(READY) && $(BIN)/python tools/benchmarks/gpu.py $(ARGS); fi

soak: $(READY)
	$(BIN)/python -m tests.soak.kill --kills 200 --faults
	$(BIN)/python -m tests.soak.ranks
	$(BIN)/python -m tests.soak.sharded
	$(BIN)/python -m tests.soak.long_run
	$(BIN)/python -m tests.soak.torchrun
	$(BIN)/python -m tests.soak.disagree
	$(BIN)/python -m tests.soak.owners --trials 100
	LAYOUTS=all $(BIN)/python -m pytest -q -n 2 --all tests/encodings/test_reference.py tests/framework/test_compile.py
	$(BIN)/python -m tests.soak.encodings
	$(BIN)/python -m tests.soak.selection
	$(BIN)/python -m tests.soak.sixteen
	$(BIN)/python -m tests.soak.flips
	$(BIN)/python -m tests.soak.changed_data --stand-ins
	$(BIN)/python -m tests.soak.config_edits
	$(BIN)/python -m tests.soak.samples
	$(BIN)/python -m tests.soak.foreign --mutations 10000
	$(BIN)/python -m tests.soak.answers

mutations: $(READY)
	$(BIN)/python -m tests.soak.mutations

INTEGRATIONS := .venv-integrations

integrations: $(INTEGRATIONS)/.ready
	$(INTEGRATIONS)/bin/python -m pytest -q tests/integrations -rs

$(INTEGRATIONS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(INTEGRATIONS)
	$(INTEGRATIONS)/bin/python -m pip install -q --upgrade "pip>=25.1"
	$(INTEGRATIONS)/bin/python -m pip install -q -c constraints.txt -e . pytest timm "transformers>=5"
	touch $@

KERNELS := .venv-kernels

kernels: $(KERNELS)/.ready
	TRITON_INTERPRET=1 $(KERNELS)/bin/python -m pytest -q -n 2 tests/kernels/test_interpreted.py
	$(KERNELS)/bin/python -m pytest -q -n 2 tests/kernels/test_compiled.py

$(KERNELS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(KERNELS)
	$(KERNELS)/bin/python -m pip install -q --upgrade "pip>=25.1"
	$(KERNELS)/bin/python -m pip install -q -c constraints.txt -e ".[gpu]" pytest pytest-xdist
	touch $@

elsewhere: $(READY)
	ELSEWHERE=all $(BIN)/python -m pytest -q -n 2 tests/elsewhere

exports: $(READY)
	EXPORTS=all $(BIN)/python -m pytest -rP --all tests/framework/test_graph.py -k files_of_all_tasks

docs: $(READY)
	$(BIN)/python -m pip install -q -c constraints.txt --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	$(BIN)/python -m pytest -q tests/docs

browser: $(READY)
	-$(BIN)/python -m pip install -q --group browser
	$(BIN)/python -m pytest -q --all tests/browser -rs

devkit: $(READY)
	$(BIN)/python -m tests.devkit.compare --sets 50

headless: $(READY)
	PYTHON=$(CURDIR)/$(BIN)/python tests/headless/run.sh

matrix:
	$(PYTHON) tests/matrix/run.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade "pip>=25.1"
	$(BIN)/python -m pip install -q -c constraints.txt -e . --group dev
	@# yapf, which mmengine brings, writes a cache on its first import, in which two workers of a test run would meet
	$(BIN)/python -c "import mmengine"
	touch $@

clean:
	rm -rf $(VENV) $(INTEGRATIONS) $(KERNELS) .devkit build dist *.egg-info
