# `make demo` and `make test` are all there is to set-up; `make test-slow` runs the tests that take longer,
# `make docs` builds the site.
# The commands they run are printed, to copy without make. Without NUMBA_DISABLE_JIT ranx compiles longer than it works.
# The slow tests have a worker more than there are cores, as many of them wait.
PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
BIN := $(VENV)/bin

.PHONY: demo test test-slow lint docs clean

demo: $(VENV)/.demo
	$(BIN)/hardneg recipe run star-passage

test: $(VENV)/.dev
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n auto --dist loadfile -m 'not slow'

test-slow: $(VENV)/.dev
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n $$(( $$(nproc) + 1 )) --dist loadfile --no-loadscope-reorder -m slow

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

$(VENV)/.dev: $(VENV)/.torch pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[dev]' -e plugins/hardneg-cagra -e plugins/hardneg-electra -e plugins/hardneg-http -e plugins/hardneg-instructions -e plugins/hardneg-judge -e plugins/hardneg-pyterrier -e plugins/hardneg-ray -e plugins/hardneg-reader -e plugins/hardneg-seq2seq
	@touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) build dist site
