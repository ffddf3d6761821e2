# Entry points for developers and CI machines. `make run` on a fresh Debian or Ubuntu builds and starts a server.
#
#   run test bench lint clean      the everyday targets
#   wheel npm                      packages for tests in other projects (docs/test-servers.md)
#   deb tarball image              packages, in PACKAGES (target/packages); packages-test installs and runs them (root)
#   golden                         the golden set (recorded answers of a real server) by area
#   schedules fresh old-cpu embedded tikv tikv-costs test-cluster crash latency power-cut adversary drivers java mongosh tools oplog streams debezium ycsb seed seeds fuzz hostile matrix coverage differential plans site manual deny sbom reproducible    slow or special targets
#
# Build artefacts are outside the clone (NAGI_CACHE, ~/.cache/nagi), so that a second clone or a second CI run
# compiles only what changed. `make clean` removes the artefacts of this workspace and keeps the RocksDB
# archive, which takes some minutes to build.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

export NAGI_CACHE ?= $(HOME)/.cache/nagi
export CARGO_TARGET_DIR ?= $(NAGI_CACHE)/target
export PATH := $(HOME)/.cargo/bin:$(PATH)

NAGI := $(CARGO_TARGET_DIR)/release/nagi
BENCH := $(NAGI)-bench
PURE := --workspace --exclude nagi --exclude nagi-app --exclude nagi-bench --exclude nagi-host --exclude nagi-kv-rocks
DATA ?= data
PACKAGES ?= $(CARGO_TARGET_DIR)/packages
ARGS ?=
# A Debian package of the program of `make tarball`, for older releases: make deb PORTABLE=1
PORTABLE ?=
# A program with the storage engine over TiKV (docs/scale-out.md): make build FEATURES=tikv
FEATURES ?=
BUILD_FEATURES = $(addprefix --features nagi-app/,$(FEATURES))

.PHONY: run build test unit schedules native wire bench bench-lang lint clean golden tikv tikv-costs test-cluster crash latency power-cut adversary drivers java seed seeds mongosh tools service oplog ycsb streams debezium fuzz \
	fresh old-cpu embedded wheel npm deb tarball image portable packages-test \
	coverage differential deny sbom reproducible hostile matrix deps help site manual

help:
	@sed -n '2,8p' Makefile | sed 's/^# \{0,1\}//'

# All clones share the target folder, and cargo compares only modification times. A clone that finds the
# artefacts of another clone therefore touches its sources; otherwise it would run the other clone's code.
deps:
	@scripts/deps build
	@stamp="$(CARGO_TARGET_DIR)/clone"; [ "$$(cat "$$stamp" 2>/dev/null)" = "$(CURDIR)" ] || { \
		find crates -name '*.rs' -exec touch {} +; mkdir -p "$(CARGO_TARGET_DIR)"; echo "$(CURDIR)" >"$$stamp"; }

build: deps           # the server and the load generator
	@cargo build --release --locked -p nagi-app -p nagi-bench $(BUILD_FEATURES)

run: deps
	@cargo build --release --locked -p nagi-app $(BUILD_FEATURES)
	@mkdir -p $(DATA)
	@exec $(NAGI) serve --dbpath $(DATA) --replSet rs0 --initiate $(ARGS)

wheel: build          # the Python package nagi_server with the program inside, for tests in other projects
	@scripts/deps test
	@packages/python/build.py $(NAGI) $(PACKAGES)

npm: build            # the same for Node.js
	@scripts/deps test
	@packages/node/build.py $(NAGI) $(PACKAGES)

# ---- tests: fastest first; the closing lines are the summary of tests/run --------------------------
test: deps
	@scripts/deps test
	@$(MAKE) unit
	@$(MAKE) native FEATURES=tikv
	@$(MAKE) build FEATURES=tikv
	@tests/run $(NAGI) all

unit: deps            # the crates that do not link RocksDB
	@cargo test --locked $(PURE)
	@cargo test --locked $(PURE) --features nagi-store/shuttle --test schedules

schedules: deps       # interleavings of builds, DDL, writers, transactions and cursors in the store: 100,000 (300 in `make test`)
	@NAGI_SCHEDULES=$${NAGI_SCHEDULES:-100000} cargo test --locked --release -p nagi-store --features shuttle --test schedules

native: deps          # the engine's own tests, and those of the binaries and of the library
	@cargo test --locked --release -p nagi-kv-rocks -p nagi-host -p nagi -p nagi-app -p nagi-bench --features nagi/bson $(BUILD_FEATURES)

wire: FEATURES = tikv
wire: build           # only the tests over the wire
	@scripts/deps test
	@tests/run $(NAGI) all

golden: build
	@scripts/deps test
	@tests/run $(NAGI) golden

drivers: build
	@scripts/deps test
	@tests/run $(NAGI) pymongo node go java java2012

java: build
	@scripts/deps test
	@tests/run $(NAGI) java java2012

# The Java program of 2012 on which this project is based: make seed SEED_JAVA=/path/to/MMongoTest1.java
seed: build
	@scripts/deps test
	@tests/run $(NAGI) seed

manual: build         # every block of the manual's pages: make manual MANUAL_ARGS="--page docs/backup.md"
	@scripts/deps test
	@tests/run $(NAGI) manual

mongosh tools service oplog ycsb streams debezium seeds: build
	@scripts/deps test
	@FULL=1 tests/run $(NAGI) $@

# The engine over TiKV, and the server over it, at full length, against a placement driver and a store, built from Go modules.
tikv: FEATURES = tikv
tikv: build
	@scripts/deps test
	@FULL=1 tests/run $(NAGI) tikv

tikv-costs: FEATURES = tikv
tikv-costs: build     # what operations cost over a cluster, beside the client of the cluster alone (docs/scale-out.md)
	@scripts/deps test
	@tests/tikv/build >/dev/null
	@NAGI="$$(realpath $(NAGI))" tests/tikv/run.py cargo test --quiet --release --locked -p nagi-kv-tikv --test cluster -- \
	  costs_of_operations --nocapture

# Three servers over three placement drivers and three stores: the golden set, pymongo, plans, and faults under workloads whose
# history is checked (docs/scale-out.md): make test-cluster CLUSTER_PARTS=faults FAULTS=store_killed,splits
test-cluster: FEATURES = tikv
test-cluster: build
	@scripts/deps test
	@CLUSTER_PARTS="$(CLUSTER_PARTS)" FAULTS="$(FAULTS)" tests/run $(NAGI) cluster

crash: build
	@CRASH_ROUNDS=$${CRASH_ROUNDS:-200} tests/run $(NAGI) crash

latency: build        # how long stopped operations continue: make latency LATENCY_ARGS="--documents 400000 --rounds 10"
	@scripts/deps test
	@tests/run $(NAGI) latency

power-cut: build      # power cuts on ext4, xfs and ext3 (root: FUSE, loop devices, mount): make power-cut POWER_CUTS=300
	@tests/run $(NAGI) power

fresh: deps           # the README's two commands in a bare Debian, timed, twice (root, debootstrap; an hour)
	@tests/fresh
	@tests/fresh libclang-cpp14

embedded: deps        # an application outside of the workspace that contains the library: built, run, measured
	@tests/embedded

old-cpu: build        # a start on an emulated x86-64 of 2008 (qemu), to find instructions that it lacks
	@command -v qemu-x86_64-static >/dev/null || { apt-get update -qq && apt-get install -y -qq qemu-user-static >/dev/null; }
	@scripts/deps test
	@tests/run $(NAGI) old_cpu

adversary: build      # requests that exhaust memory, damaged folders, exhausted file descriptors, at full length
	@scripts/deps test
	@FULL=1 tests/run $(NAGI) memory ddl damage descriptors config

# ---- packages -------------------------------------------------------------------------------------
deb: $(if $(PORTABLE),portable,build)   # a Debian package; PORTABLE=1: one that Debian 11 and Ubuntu 20.04 can install
	@packaging/build-deb $(if $(PORTABLE),$(PACKAGES)/nagi,$(NAGI)) $(PACKAGES)

portable: deps        # the program for systems with glibc 2.28 and later
	@packaging/build-portable $(PACKAGES)/nagi

tarball: portable     # an archive that runs on Debian 11, Ubuntu 20.04, RHEL 8 and later
	@packaging/build-tarball $(PACKAGES)/nagi $(PACKAGES)

image: build          # a container image (root or sudo: debootstrap, buildah): podman load -i FILE
	@packaging/build-image $(NAGI) $(PACKAGES)/nagi-image.tar

packages-test: build  # all packages, installed and run (root, debootstrap, systemd-nspawn, podman; 20 minutes)
	@tests/packages/run $(NAGI) $(PACKAGES)

# ---- measuring ------------------------------------------------------------------------------------
bench: build
	@scripts/ferretdb >/dev/null || echo "no peer: FerretDB could not be built" >&2
	@$(BENCH) limit --peer-ferretdb "$$(scripts/ferretdb 2>/dev/null)" $(ARGS)

bench-lang: deps      # filters, projections, updates, expressions compared with owned documents: make bench-lang ARGS=filter
	@CARGO_INCREMENTAL=0 cargo bench --locked -p nagi-lang --bench language -- $(ARGS)

# ---- maintenance ----------------------------------------------------------------------------------
lint: deps
	@cargo fmt --all --check
	@cargo clippy --locked --workspace --all-targets --features nagi-app/tikv -- -D warnings
	@cargo clippy --locked -p nagi-kv-tikv --test cluster -- -D warnings
	@cargo test --locked -p nagi-testkit
	@cargo check --quiet --locked --manifest-path fuzz/Cargo.toml

coverage: build       # writes docs/coverage.md from the rows that the tests over the wire report; `make test` fails if it is stale
	@scripts/deps test
	@UPDATE_COVERAGE=1 tests/run $(NAGI) rows

differential: deps    # pairs of equivalent requests, 50,000 cases each (2,000 in `make test`)
	@NAGI_CASES=50000 cargo test --locked --release -p nagi-lang --test it differential

plans: deps           # every plan returns the result of a collection scan: 100,000 queries (2,000 in `make test`)
	@NAGI_CASES=100000 cargo test --locked --release -p nagi-query --test it any_plan

site:                 # the manual as a site with search, in $(NAGI_CACHE)/site: make site SITE=DIR
	@scripts/deps build
	@scripts/site $(SITE)

deny:                 # advisories, licenses, duplicates and sources of the dependencies: make deny ARGS=licenses
	@scripts/deps build
	@scripts/deny $(ARGS)

sbom:                 # the bill of materials, as CycloneDX, in PACKAGES
	@scripts/deps build
	@mkdir -p $(PACKAGES)
	@scripts/sbom >$(PACKAGES)/nagi.cdx.json
	@echo "$(PACKAGES)/nagi.cdx.json: $$(grep -c '"bom-ref"' $(PACKAGES)/nagi.cdx.json) components"

reproducible: deps    # the program of the last commit, built in two folders, is the same file (two release builds)
	@scripts/reproducible $(ARGS)

fuzz: deps
	@fuzz/run $(ARGS)

# 1,000,000 mutated handshakes, certificates, logins, tokens, and answers of LDAP and KMIP servers each under address
# sanitizer; then a million messages of all kinds against the server, and some against one with address sanitizer
hostile: build
	@JOBS=$${JOBS:-$$(nproc)} RUNS_EACH=$${RUNS_EACH:-1000000} fuzz/run handshake certificates login tokens ldap kmip
	@scripts/deps test
	@FULL=1 tests/run $(NAGI) handshakes
	@ASAN_OPTIONS=quarantine_size_mb=16 FULL=1 HANDSHAKE_SECONDS=$${HANDSHAKE_SECONDS:-300} tests/run "$$(fuzz/run --server)" handshakes

matrix: build         # every command and stage x every role x three databases, with inherited roles
	@scripts/deps test
	@FULL=1 tests/run $(NAGI) matrix

clean:
	@cargo clean
	@rm -rf $(DATA)
