# make X = see to it that .venv is there, then `lmbook X`. Works without make too:
# see README.md. CH is a chapter (CH=03), P are parameters (P="seed=1 quick=True").
.DEFAULT_GOAL := book
LMBOOK := .venv/bin/lmbook
CH :=
P :=
ANSWERS ?= 1

# The first of these on the path that is new enough.
PYTHON := $(shell for p in python3.11 python3; do \
  if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
  then command -v $$p; break; fi; done)

.PHONY: book test test-slow lab reset diff experiment accept bench sheet doctor
.PHONY: handouts site release clean

test test-slow lab bench sheet doctor handouts: .venv/.stamp
	@$(LMBOOK) $@

# ANSWERS=0: a site that holds no answer.
book site release: .venv/.stamp
	@$(LMBOOK) $@ $(if $(filter 0,$(ANSWERS)),--no-answers)

accept: .venv/.stamp
	@$(LMBOOK) accept $(CH)

reset diff: .venv/.stamp
	@$(LMBOOK) $@ $(CH)

experiment: .venv/.stamp
	@$(LMBOOK) experiment $(CH) $(P)

clean:
	rm -rf build

# The stamp is written last, so an interrupted install is done again. It holds the
# folder: a folder that was moved or copied is installed again, too.
.venv/.stamp: pyproject.toml requirements.lock
	@if [ -z "$(PYTHON)" ]; then \
	  echo "Python 3.11 or newer is not on the path; please install it." >&2; exit 1; fi
	@"$(PYTHON)" -c 'import ensurepip, venv' >/dev/null 2>&1 || { \
	  echo "$(PYTHON) has no venv module; install it (Debian, Ubuntu: python3-venv)." >&2; \
	  exit 1; }
	@rm -f .venv/.stamp
	@if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then \
	  "$(PYTHON)" -m venv --clear .venv; fi
	.venv/bin/python -m pip install -c requirements.lock -e '.[press,test]'
	@pwd -P > .venv/.stamp

ifneq ("$(shell cat .venv/.stamp 2>/dev/null)","$(CURDIR)")
.PHONY: .venv/.stamp
endif
