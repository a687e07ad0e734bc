# Everything needs only Go and make. Programs built here are static, as releases are: plain `go build` uses the C library where
# there is gcc. The race detector alone needs it.
export CGO_ENABLED ?= 0
# Releases are built without paths of the machine. What is compiled for them, for tests and for use is then the same.
export GOFLAGS := -trimpath $(GOFLAGS)
# What is built here is built with the Go that is here. A release is built with the one that go.mod names, and no other.
export GOTOOLCHAIN ?= local
export CHROMIUM ?= /usr/bin/chromium
export FIREFOX ?= /usr/bin/firefox-esr

.DEFAULT_GOAL := help

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

run: build .env ## Build, fill a new database with a demo, and serve at http://localhost:8080
	./bin/worldevents demo
	exec ./bin/worldevents serve

build: ## Build bin/worldevents
	go build -ldflags '-s -w' -o bin/worldevents .

release: ## Build what a release consists of into dist/: programs, an image, the client, a Postman collection, the launcher, bills of materials, checksums (needs Node)
	@.ci/release

.env:
	@secret=$$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n') && umask 077 && \
		sed "s/^JWT_SECRET=.*/JWT_SECRET=$$secret/" .env.example > .env.new && mv .env.new .env
	@echo 'wrote .env with a fresh JWT_SECRET'

# Tests mostly wait, so more of them run at once than there are cores. PARALLEL=4 suits a machine that is slow. All of them start the program that was just built.
# Where nothing has changed the programs of the tests are there, too, and are not linked again. make check vets them.
PARALLEL ?= 8
GOTEST = TEST_PROGRAM=$(CURDIR)/bin/worldevents go test -vet=off -parallel $(PARALLEL) -o bin/tests/ -ldflags '-s -w' $(TESTFLAGS)

# These have memory, and collecting it less often takes a tenth of the time. Others look at how much the program takes.
test test-postgres test-model: export GOGC = 400

test: build ## Test what a change most likely breaks, on SQLite and on PostgreSQL
	$(GOTEST) -timeout 20m $$(go list ./... | grep -v /tests/long/)

test-faults: build ## Break databases, networks and the process itself under load (minutes; needs pgbouncer, haproxy, nginx and strace)
	$(GOTEST) -parallel $$(($(PARALLEL) / 2)) -timeout 40m ./tests/long/faults # which promise times: fewer at once

# HOSTILE='-cells 100 -seed 1' runs a part of the cells, HOSTILE='-run TestMatrix -cell NAME' one. What fails says how to run it again.
test-hostile: build ## Attack the service in generated ways (half an hour; HOSTILE='-cells 100' for less; needs haproxy and nginx)
	$(GOTEST) -v -timeout 90m ./tests/long/hostile $(HOSTILE)

test-cluster: build ## Lose the leader of a PostgreSQL cluster under load (minutes; needs patroni, etcd and haproxy)
	$(GOTEST) -v -timeout 30m ./tests/long/cluster

test-deploy: build ## Test releases, the unit, the image, the alerts, the runbooks, certificates by ACME, and plans of large tables (minutes; needs systemd, buildah and prometheus)
	$(GOTEST) -timeout 40m -skip '^TestNewMajorVersion$$' ./tests/long/acme ./tests/long/deploy ./tests/long/runbooks ./tests/long/years # test-postgres has what that one moves to

test-postgres: build ## Run the tests on PostgreSQL with the newest version, 18, and the move to it (needs Node)
	@.ci/node tests/postgres ./test env $(GOTEST)

MODELTIME ?= 10m
SESSIONHISTORIES ?= 10000
test-model: build ## Hold the service against models of worlds, MODELTIME=10m in all, and of sessions, SESSIONHISTORIES=10000
	$(GOTEST) -timeout 0 ./tests/model -modeltime=$(MODELTIME)
	$(GOTEST) -timeout 0 ./tests/sessionmodel -rapid.checks=$(SESSIONHISTORIES)

# Minimizing what is found would take most of the time.
FUZZTIME ?= 1m
fuzz: ## Look for inputs that break the service, FUZZTIME=1m for each target
	for target in tests/api/FuzzBody tests/api/FuzzPathAndQuery tests/api/FuzzJWT tests/api/FuzzCookies \
		models/internal/names/FuzzNormalize server/internal/contract/FuzzQuery \
		server/internal/eventlist/FuzzAppendString server/internal/eventlist/FuzzEncode server/internal/eventlist/FuzzCursor \
		server/internal/session/FuzzVerify server/internal/session/FuzzCookie server/internal/oidc/FuzzResumeFlow; do \
		go test -run '^$$' -fuzz "^$${target##*/}\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x ./$${target%/*} || exit 1; done

race: build ## Run all tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GOTEST) -race -timeout 40m $$(go list ./... | grep -v /tests/long/)

# Where Node or a browser is missing these are skipped, but never with CI=true.
CLIENT := bin/worldevents-client-$(shell sed -n 's/^  "version": "\(.*\)",/\1/p' gen/typescript/package.json).tgz
client: $(CLIENT) ## Pack the TypeScript client into bin/ (needs Node)

$(CLIENT): $(shell find gen/typescript/src docs/typescript examples/react tests/guards/[a-z]* tests/browser/vue tests/browser/svelte -name node_modules -prune -o -type f -print) \
	$(addprefix gen/typescript/,README.md pages package.json package-lock.json tsconfig.json)
	@mkdir -p bin
	@.ci/node gen/typescript npm pack --silent --pack-destination ../../bin

test-clients: build client ## Test the TypeScript client, the launcher, and what other tools make of the contract (needs Node)
	@.ci/node gen/typescript node --test --test-timeout=600000 --test-reporter=spec
	@.ci/node tests/clients node --test --test-timeout=600000 --test-reporter=spec
	@.ci/node tests/launcher node --test --test-timeout=600000 --test-reporter=spec

test-guards: build client ## Test the client's guards in Next.js, SvelteKit and Nuxt, built and served (minutes; needs Node and 600 MB)
	@.ci/node tests/guards node --test --test-timeout=600000 --test-reporter=spec

test-browser: build client ## Test in Chromium and Firefox: many tabs, other origins, Swagger UI (needs Node)
	@NEEDS=$(CHROMIUM) .ci/node tests/browser node --test --test-concurrency=2 --test-reporter=spec

test-oidc: build ## Test signing in through a certified OpenID provider in Chromium (needs Node)
	@NEEDS=$(CHROMIUM) .ci/node tests/provider node --test --test-reporter=spec

mutants: ## Break the code in small ways, and see tests turn red (minutes; MUTANTS='-n 5' tries five, MUTANTS='-run NAME' some)
	go run ./tests/mutants $(MUTANTS)

bench: ## Measure the service beside a reference (needs PostgreSQL's binaries; minutes)
	go run ./tests/bench

check: ## Check format, vet, known vulnerabilities, modules, generated code, and the contract against the released one
	@.ci/check

outdated: ## Name the modules that are behind a release of more than 14 days ago
	@.ci/outdated

generate: ## Regenerate gen/ from openapi.yaml, and take Swagger UI from its package (both but gen/*.go need Node)
	go generate ./gen
	@.ci/node gen/typescript npm run --silent generate
	@.ci/node server/internal/pages/swagger ./generate

.PHONY: help run build release test race test-faults test-hostile test-cluster test-deploy test-postgres test-model fuzz client test-clients test-guards test-browser test-oidc mutants bench check outdated generate
