# Everything installs by itself what it needs. `make run` and `make test` are the two commands to know; CONTRIBUTING.md
# has a table of what check, test and ci do.

GO     ?= go
BIN    := $(CURDIR)/.bin
MOBILE := v0.0.0-20261011034528-197770444867
# With -trimpath the build cache serves each clone of the repository, whatever its folder.
export GOFLAGS := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)
# The folders of the modules, as in go.work.
MODULES = $(shell $(GO) work edit -json | sed -n 's/.*"DiskPath": "\(.*\)".*/\1/p')

FUZZTIME ?= 20s
ROUNDS   ?= 20
STEPS    ?= 6
TIME     ?= 10m
SEED     ?= $(shell date +%s)

.PHONY: run build check test ci clients mobile bench-client bench-client-js published browsers cross-server deploy image release packages packages-systemd site site-serve reference faults simulate mutants soak soak-clients million cluster operator lint generate swagger-ui test-redis-versions bench fuzz tidy version clean

# A server for the first five minutes: loopback only, everything in memory.
run: build
	$(BIN)/gyro dev

# Static, as a release has it, so that its tests share what is compiled.
build:
	cd server && CGO_ENABLED=0 $(GO) build -o $(BIN)/gyro ./cmd/gyro

# What a change has to pass: before each commit, before it is handed in, and what is left. PART=unit,vet runs some
# steps alone; FRESH=1 runs also the Go tests whose results Go has kept.
check test ci:
	@$(GO) run ./tools/loop $(if $(FRESH),-fresh) $(if $(PART),-part '$(PART)') $@

# The server for Windows, before a release: its dependencies take minutes to compile.
cross-server:
	GOOS=windows GOARCH=386 $(GO) build ./server/...

# Compose file, chart and manifests against their schemas.
deploy:
	scripts/deploy.sh

# What a release publishes, in dist: binaries, archives, deb, rpm, OCI image, chart, SBOMs, Homebrew formula, notes,
# checksums. TARGETS=linux/amd64,… for some systems, VERSION=0.2.0 for another version than that of the tag.
release:
	rm -rf dist
	$(GO) run ./tools/release -version '$(VERSION)' -targets '$(TARGETS)' -out dist

# gyro:local for this machine, which deploy/compose runs: docker load -i .cache/gyro-image.tar
image:
	$(GO) run ./tools/release image .cache/gyro-image.tar

# The packages and the image for this machine, installed and run in a clean root; needs root.
packages:
	scripts/packages.sh

# The deb under a real systemd, in namespaces of its own; needs root.
packages-systemd:
	scripts/packages.sh systemd

# ROUNDS random schedules of STEPS faults on each kind of cluster, from SEED on.
faults:
	mkdir -p .cache
	$(GO) build -race -o .cache/gyro-race ./server/cmd/gyro
	E2E_GYRO=$(CURDIR)/.cache/gyro-race $(GO) test -count=1 -timeout=0 ./e2e/faults -run TestRandom -seed $(SEED) -rounds $(ROUNDS) -steps $(STEPS)

# Clusters in virtual time, from new seeds, for TIME on all processors. What fails is shrunk and kept in .cache/simulation.
simulate:
	mkdir -p .cache
	$(GO) test -c -o .cache/simulation.test ./internal/simulation
	.cache/simulation.test -test.run TestSearch -test.timeout 0 -first 0 -search $(TIME) -found .cache/simulation

# Small faults in the product, one after the other: the simulator has to find each within TIME. NAMES=… for some of them.
mutants:
	cd internal/simulation && $(GO) run ./mutants -time $(TIME) -names '$(NAMES)'

# TIME with a backend that fails a fifth of the calls: no descriptor, goroutine or memory may be left.
soak:
	$(GO) test -count=1 -timeout=0 -v ./server/internal/app -run TestFailingBackend -failing $(TIME)

# Both clients, CLIENTS of each, over networks and servers with faults for TIME.
soak-clients: build clients
	E2E_GYRO=$(BIN)/gyro $(GO) test -count=1 -timeout=0 -v ./e2e/soak -time $(TIME) -clients $(or $(CLIENTS),200)

# What a cluster of NODES nodes costs and answers: the table of docs/scaling.md. NODES and ENGINES may be lists, with commas;
# PARTS leaves something out (see e2e/cluster). Some five minutes for each.
cluster: build
	E2E_GYRO=$(BIN)/gyro $(GO) test -count=1 -timeout=0 -v ./e2e/cluster -run TestTable -sizes $(or $(NODES),52) $(if $(ENGINES),-engines $(ENGINES)) $(if $(PARTS),-parts $(PARTS))

# A cluster of NODES nodes and SHARDS Redis shards with CONNS connections, on this machine: docs/million.md. Not part of make test,
# which runs a small one.
million: build
	CONNS='$(CONNS)' NODES='$(NODES)' SHARDS='$(SHARDS)' LOADS='$(LOADS)' IDLE='$(IDLE)' STEP='$(STEP)' DRAIN='$(DRAIN)' PING='$(PING)' PHASES='$(PHASES)' OUT='$(OUT)' scripts/million.sh

# A cluster of three nodes behind nginx with CLIENTS clients, to which happens what happens to clusters: who is away how long, what each tool
# says, which alerts fire. STEP runs some of the steps, with commas between them. Not part of make test, which runs some steps with few clients.
operator: build
	E2E_GYRO=$(BIN)/gyro $(GO) test -count=1 -timeout=0 -v ./e2e/operator -run TestOperator -clients $(or $(CLIENTS),3000) $(if $(STEP),-steps '$(STEP)') -out $(CURDIR)/.cache/operator

# The documentation as a web site, in .cache/site; site-serve shows it.
site:
	scripts/site.sh
site-serve:
	scripts/site.sh --serve
# The reference of the client for JavaScript, from its types and their comments, in .cache/reference/client-js.
reference:
	scripts/site.sh --reference

# The client for JavaScript: its tests, its package, its size.
clients: build
	scripts/clients.sh

# The package of it in a project of its own, with each bundler; and it in Firefox, and in a Chromium that sleeps. Not part of make test.
published:
	scripts/published.sh
browsers: build
	scripts/browsers.sh

# Classes for Java and Objective-C from client/mobile, as gomobile bind makes them.
mobile:
	scripts/mobile.sh $(MOBILE)

# The client for Go beside centrifuge-go: CPU of a publication, memory of a connection.
bench-client:
	$(GO) test -count=1 -run '^$$' -bench Receive -benchtime 300000x -timeout 10m ./e2e/goclient
	$(GO) test -count=1 -run '^$$' -bench Memory -benchtime 1x -timeout 10m ./e2e/goclient

# The client for JavaScript beside npm centrifuge: size, publications per second in Node.js and in Chromium.
bench-client-js:
	scripts/clients.sh --bench $(BENCH)

# golangci-lint of everything, whatever has changed.
lint:
	@$(GO) run ./tools/loop -part lint ci

# The generated files, which are committed. Those of the admin web application are made if its sources changed.
generate:
	$(GO) run ./tools/generate

# The page of the server API: the files of Swagger UI that the server embeds. They are committed.
swagger-ui:
	scripts/swagger-ui.sh

# The tests of the Redis engine on Redis 6.2 and 8 and Valkey 8 and 9 (on Debian).
test-redis-versions:
	scripts/redis-versions.sh

bench:
	$(GO) test -run '^$$' -bench . -benchmem $(MODULES:%=%/...)

# Every fuzz target for FUZZTIME.
fuzz:
	scripts/fuzz.sh $(FUZZTIME)

tidy:
	scripts/tidy.sh $(MODULES)

# The version of the next release in all places that have it: make version VERSION=v0.2.0
version:
	$(GO) run ./tools/release version $(VERSION)
	$(MAKE) generate

clean:
	rm -rf $(BIN) .cache dist
