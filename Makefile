# Everything needs only Go and make. Without cgo the binary is static; the race detector alone wants a C compiler.
export CGO_ENABLED ?= 0

.DEFAULT_GOAL := help

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

run: build .env ## Build, fill a new database with a demo, and serve at http://localhost:8080
	./bin/worldevents demo
	exec ./bin/worldevents serve

build: ## Build bin/worldevents
	go build -ldflags '-s -w' -o bin/worldevents .

.env:
	@secret=$$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n') && umask 077 && \
		sed "s/^JWT_SECRET=.*/JWT_SECRET=$$secret/" .env.example > .env.new && mv .env.new .env
	@echo 'wrote .env with a fresh JWT_SECRET'

test: build ## Run all tests, on SQLite and on PostgreSQL
	go test ./...

test-faults: build ## Break databases, networks and the process itself under load (minutes; needs tools, see .ci/run)
	go test -tags faults -count=1 -timeout 20m ./tests/faults

# Minimizing what is found would take most of the time.
FUZZTIME ?= 1m
fuzz: ## Look for inputs that break the service, FUZZTIME=1m for each target
	for target in FuzzBody FuzzPathAndQuery FuzzJWT FuzzCookies; do \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x ./tests || exit 1; done

race: build ## Run all tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race ./...

# The tools and what they need are pinned beside the module, and are no part of it.
CHECK = go tool -modfile=.ci/check.mod
# G104: what cannot be written to a client that is gone, or closed, is nobody's error. G115: a cursor may hold any bits.
# G124: the attributes of cookies come from the configuration, and tests hold them to it.
GOSEC = -quiet -exclude-generated -exclude-dir=tests -exclude=G104,G115,G124

check: ## Check format, vet, known vulnerabilities, modules and generated code
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'run gofmt'; exit 1; }
	go vet ./...
	go vet -tags faults ./tests/faults
	$(CHECK) staticcheck -tags faults ./...
	$(CHECK) gosec $(GOSEC) ./...
	@found=$$($(CHECK) govulncheck ./... 2>&1) && echo "$$found" || { echo "$$found"; echo "$$found" | grep -q 'fetching vulnerabilities' && \
		echo 'THE DATABASE OF VULNERABILITIES CANNOT BE REACHED: NOT CHECKED'; }
	go mod tidy -diff
	go mod verify
	@cp gen/api.gen.go gen/api.gen.go.committed; $(MAKE) --no-print-directory generate; \
		diff -u gen/api.gen.go.committed gen/api.gen.go; stale=$$?; rm gen/api.gen.go.committed; \
		test $$stale = 0 || { echo 'gen/api.gen.go was stale: commit it'; exit 1; }

generate: ## Regenerate gen/ from openapi.yaml
	go generate ./gen

.PHONY: help run build test test-faults fuzz race check generate
