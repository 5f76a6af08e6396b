# Everything from a bare clone, with python3, pip, git and make: `make demo`, `make test`.
# Another interpreter: `make PYTHON=python3.12 test`.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
DEMO := demo
# The steps of `make demo-reach`, and sizes with which it takes less than a minute. The quick start
# has them, too.
REACH := --steps 10000 --every 1000 --width 128 --batch-size 256

# Debian's python3 comes without ensurepip; there the pip that is installed makes the new one.
CREATE_VENV = if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then $(PYTHON) -m venv .venv; else \
  $(PYTHON) -m venv --without-pip .venv && \
  $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; fi

.PHONY: help demo demo-reach test docs lint format dist clean
.DELETE_ON_ERROR:

help:
	@echo "make demo        record Hopper data, learn from it by watching, draw the learning curves"
	@echo "make demo-reach  the same in a minute, with a task that ends: reach a goal and stop there"
	@echo "make test        run the tests"
	@echo "make docs        build the documentation's site into site/"
	@echo "make lint        ruff, pyright and the layers of imports"
	@echo "make format      let ruff put the code in order, and write docs/api/ from it"
	@echo "make dist        build the wheel and the source distribution into dist/, and check them"
	@echo "make clean       remove what make has made"

demo: $(INSTALLED)
	@$(BIN)/python examples/demo.py $(DEMO)

demo-reach: $(INSTALLED)
	@rm -rf $(DEMO)/reach
	$(BIN)/lobsdice train lobsdice --task reach $(REACH) --out $(DEMO)/reach
	$(BIN)/lobsdice evaluate $(DEMO)/reach --episodes 100
	$(BIN)/lobsdice play $(DEMO)/reach --episodes 3 --video $(DEMO)/reach/reach.gif

# Bytecode is kept, whatever the environment says: tests start many processes, and without it
# each of them would compile JAX anew.
test: $(INSTALLED)
	PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --durations=25

# The variable silences an advertisement of the theme's makers, nothing else.
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo --no-cache

format: $(INSTALLED)
	$(BIN)/python docs/reference.py
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# Without isolation: what builds the package is installed with all the rest.
dist: $(INSTALLED)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

clean:
	rm -rf .venv $(DEMO) site .pytest_cache .ruff_cache .hypothesis dist build

# A stamp: installed anew only when what is to be installed has changed.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit( \
	  "lobsdice needs Python 3.11 or newer; $(PYTHON) is " + sys.version.split()[0] + \
	  ". Try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@test -x $(BIN)/python || { echo "Creating .venv ..."; $(CREATE_VENV); }
	@echo "Installing (the first time this takes a minute or two) ..."
	@# Modules are compiled when they are first imported: most never are, and that takes a minute.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
	  --constraint constraints.txt --editable '.[dev]'
	@touch $@
