# Needs make, git, a Python >= 3.9 and the package indexes. Installs nothing on the system: only .venv here, the
# environments of xpk and MaxText in xsft's cache folder, and a Python 3.12 of uv's where there is none.
.DEFAULT_GOAL := check
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
WORKLOAD ?= workloads/tiny_local.yaml

.PHONY: setup
setup:
	@.ci/bootstrap

.PHONY: environments
environments: setup
	@$(BIN)/python tests/build_environments.py

.PHONY: demo
demo: setup
	@$(BIN)/xsft setup maxtext
	@$(BIN)/xsft submit $(WORKLOAD)

# A tiny model from Hugging Face's format to an answer of the served export, in FOLDER; again: nothing is done twice.
FOLDER ?= xsft-runs/pipeline
.PHONY: pipeline
pipeline: setup
	@$(BIN)/xsft setup maxtext
	@$(BIN)/xsft setup engine
	@$(BIN)/python -m tests.wholepipeline $(FOLDER)

.PHONY: pictures
pictures: demo
	@$(BIN)/python -m tests.pictures
	@$(BIN)/python -m tests.data_guide

.PHONY: check format lint types imports schema tests-load
check: format lint types imports schema tests-load
format: setup
	$(BIN)/ruff format --check .
lint: setup
	$(BIN)/ruff check .
types: setup
	$(BIN)/mypy
imports: setup
	$(BIN)/lint-imports --no-logo
schema: setup
	$(BIN)/python docs/generate.py --check

tests-load: setup # a name that was changed is missed by mypy in test files
	@told=$$($(PYTEST) -qq --collect-only 2>&1) || { echo "$$told" | tail -60; exit 1; }

.PHONY: docs
docs: setup
	$(BIN)/python docs/generate.py

.PHONY: cluster cluster-down cluster-tools
cluster: setup
	@$(BIN)/python -m tests.control_plane up
cluster-down: setup
	@$(BIN)/python -m tests.control_plane down
cluster-tools: setup
	@$(BIN)/python -m tests.control_plane build --if-possible

.PHONY: test
test: environments
	@$(BIN)/python tests/run.py

.PHONY: golden
golden: setup
	@$(BIN)/xsft setup xpk
	$(PYTEST) -q --update-golden tests/test_workloads.py tests/contract/test_cpu_through_xpk.py tests/contract/test_stages_through_xpk.py

.PHONY: fix
fix: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: locks
COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --only-binary :all: --no-annotate \
  --custom-compile-command 'make locks'
COMPILE_IMAGE := $(filter-out --universal,$(COMPILE)) --python-platform x86_64-manylinux_2_31 --python-version 3.12 --no-deps
locks: setup
	$(COMPILE) --python-version 3.11 pyproject.toml -o xsft/locks/xsft.txt
	$(COMPILE) --python-version 3.11 -c xsft/locks/xsft.txt --group dev pyproject.toml -o xsft/locks/dev.txt
	$(MAKE) lock-xpk
	$(COMPILE) --python-version 3.12 --no-deps xsft/locks/maxtext.in -o xsft/locks/maxtext.txt
	$(COMPILE) --python-version 3.12 xsft/locks/engine.in -o xsft/locks/engine.txt
	$(COMPILE_IMAGE) xsft/locks/compiler.in -o xsft/locks/compiler.txt
	$(COMPILE_IMAGE) -c xsft/locks/xsft.txt images/post_training/installer.in -o images/post_training/installer.txt
	$(COMPILE_IMAGE) --override images/post_training/overrides.txt images/post_training/requirements.in \
	  -o images/post_training/requirements.txt

.PHONY: lock-xpk
lock-xpk: setup
	$(COMPILE) --python-version 3.11 xsft/locks/xpk.in -o xsft/locks/xpk.txt

# Hours: compiles every row of the catalogue and every cluster workload anew, and compares; ROWS="A L1" only these
.PHONY: fit
fit: setup
	@$(BIN)/xsft setup compiler
	@$(BIN)/python -m tests.tools.fit_rows $(ROWS)

# Another xpk: VERSION=1.17.0
.PHONY: xpk-release
xpk-release: setup
	@$(BIN)/python -m tests.tools.xpk_release $(VERSION)
	$(PYTEST) -q --maxfail=10 --tb=short tests/tools tests/catalog/test_tpu.py tests/test_workloads.py tests/contract/test_xpk_render.py \
	  tests/contract/test_audit_through_xpk.py tests/contract/test_encoding_through_xpk.py

# A MaxText release into the catalogue: VERSION=0.2.6 FACTS="scan_layers_auto=true"; with DEFAULT=yes, for new workloads
.PHONY: maxtext-release
maxtext-release: environments
	@$(BIN)/python -m tests.tools.maxtext_release $(VERSION) $(FACTS) $(if $(DEFAULT),DEFAULT=$(DEFAULT))
	@$(BIN)/python -m tests.tools.failure_logs
	$(PYTEST) -q tests/catalog tests/tools tests/failures

.PHONY: bench
bench: environments
	$(BIN)/python tests/bench/bench.py
	$(BIN)/python -m tests.bench.bench_check
	$(BIN)/python -m tests.bench.bench_submit
	$(BIN)/python -m tests.bench.bench_status
	$(BIN)/python -m tests.bench.bench_status --runs 20
	$(BIN)/python -m tests.bench.bench_image

# make image push [PLACE=main | REGISTRY=us-docker.pkg.dev/my-project/xsft] [IMAGE=post_training]
#   [ARGS='--maxtext-source ../maxtext --code ./mine --pip-config pip.conf']: what `xsft image --help` lists
.PHONY: image push
IMAGE ?= post_training
IMAGE_ARGS = --image=$(IMAGE) $(if $(REGISTRY),--registry=$(REGISTRY)) $(if $(PLACE),--place=$(PLACE)) $(ARGS)
image: setup # a push builds, too, and first asks the registry whether it may
	$(if $(filter push,$(MAKECMDGOALS)),@:,@$(BIN)/xsft image build $(IMAGE_ARGS))
push: setup
	@$(BIN)/xsft image push $(IMAGE_ARGS)

.PHONY: clean
clean:
	rm -rf .venv .venv.lock dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find xsft tests -name __pycache__ -type d -prune -exec rm -rf {} +
