# `make demo` and `make test` are all there is to set-up; `make test-slow` runs the tests that take longer,
# `make test-avx2` those of networks and searches again, as on a CPU without AVX-512,
# `make docs` builds the site.
# The commands they run are printed, to copy without make. Without NUMBA_DISABLE_JIT ranx compiles longer than it works.
# A test that hangs where no signal reaches it ends its worker, which tells where; at the second the run ends.
# The slow tests have two workers more than there are cores, as many of them wait; files without any are not imported,
# and the longest files begin first, as a file goes to one worker.
PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
BIN := $(VENV)/bin
HANGING = --max-worker-restart 1 -o faulthandler_exit_on_timeout=true -o faulthandler_timeout
LONGEST := $(addprefix plugins/hardneg-,ray/tests papers/tests/test_paper_runs.py papers/tests/test_verify.py)
LONGEST += $(addprefix tests/,plugins/test_packages.py test_release.py benchmarks/test_gpu_checks.py faults)
PACKAGES := $(patsubst %,-e plugins/hardneg-%,advice browse cagra datasets electra fast-cpu http hub instructions judge mteb multi-vector papers pyterrier ray reader seq2seq sparse)

.PHONY: demo test test-avx2 test-slow lint docs clean

demo: $(VENV)/.demo
	$(BIN)/hardneg recipe run star-passage

test: $(VENV)/.dev
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n auto --dist loadfile $(HANGING)=660 -m 'not slow'

test-avx2: $(VENV)/.dev
	ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -n auto \
		--dist loadfile $(HANGING)=660 -m 'not slow' \
		$(addprefix tests/,encoders indexes training losses rerankers) plugins/hardneg-fast-cpu/tests

test-slow: $(VENV)/.dev
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n $$(( $$(nproc) + 2 )) --dist loadfile --no-loadscope-reorder $(HANGING)=3660 -m slow --durations 60 \
		$(LONGEST) $$(grep -rl --include='test_*.py' 'mark\.slow' plugins/*/tests tests | sort)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

$(VENV)/.torch:
	$(PYTHON) -m venv $(VENV)
	.ci/install-torch $(BIN)/python $(PIP_ARGS)
	@touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[demo]'
	@touch $@

# One hatchling builds all packages, where pip would install it anew for each.
$(VENV)/.dev: $(VENV)/.torch pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt --no-build-isolation $(PACKAGES)
	@touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) build dist site
