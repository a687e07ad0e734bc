# Everything needs only Go and make. Without cgo the binary is static; the race detector alone wants a C compiler.
export CGO_ENABLED ?= 0
export CHROMIUM ?= /usr/bin/chromium

.DEFAULT_GOAL := help

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

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

test-faults: build ## Break databases, networks and the process itself under load (minutes; needs pgbouncer, haproxy, slowhttptest and strace)
	go test -tags faults -count=1 -timeout 20m ./tests/faults

# Minimizing what is found would take most of the time.
FUZZTIME ?= 1m
fuzz: ## Look for inputs that break the service, FUZZTIME=1m for each target
	for target in FuzzBody FuzzPathAndQuery FuzzJWT FuzzCookies; do \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x ./tests || exit 1; done

race: build ## Run all tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race ./...

# Node and a browser are not needed to build or run; where they are missing their tests are skipped, but never with CI=true.
need = command -v $(1) >/dev/null || { echo '$(2)'; [ "$$CI" != true ]; exit; };
packages = { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --ignore-scripts --silent; }

client: ## Pack the TypeScript client into bin/ (needs Node)
	@$(call need,npm,SKIPPED client: npm is not installed) \
		mkdir -p bin && cd gen/typescript && $(packages) && npm pack --silent --pack-destination ../../bin

test-clients: build client ## Test the TypeScript client, and those of five generators (needs Node)
	@$(call need,npm,SKIPPED test-clients: npm is not installed) \
		(cd gen/typescript && node --test --test-reporter=spec test) && \
		cd tests/clients && $(packages) && node --test --test-reporter=spec

test-browser: build client ## Test in Chromium: many tabs, other origins, Swagger UI (needs Node)
	@$(call need,npm,SKIPPED test-browser: npm is not installed) \
		$(call need,$(CHROMIUM),SKIPPED test-browser: chromium is not installed) \
		cd tests/browser && $(packages) && node --test --test-concurrency=1 --test-reporter=spec

test-oidc: build ## Test signing in through a certified OpenID provider in Chromium (needs Node)
	@$(call need,npm,SKIPPED test-oidc: npm is not installed) \
		$(call need,$(CHROMIUM),SKIPPED test-oidc: chromium is not installed) \
		cd tests/oidc && $(packages) && node --test --test-reporter=spec

bench: ## Measure the service beside a reference and draw the plots (needs PostgreSQL's binaries; minutes)
	go run ./tests/bench -o tests/bench/results.json
	go -C tests/bench/plot run . ../results.json ..

oasdiff = go tool -modfile=gen/oasdiff.mod oasdiff breaking --flatten-allof --fail-on WARN --severity-levels gen/released/severity.txt

# The tools and what they need are pinned beside the module, and are no part of it.
CHECK = go tool -modfile=.ci/check.mod
# G104: what cannot be written to a client that is gone, or closed, is nobody's error. G115: a cursor may hold any bits.
# G124: the attributes of cookies come from the configuration, and tests hold them to it.
GOSEC = -quiet -exclude-generated -exclude-dir=tests -exclude=G104,G115,G124

check: ## Check format, vet, known vulnerabilities, modules, generated code, and the contract against the released one
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'run gofmt'; exit 1; }
	go vet ./...
	go vet -tags faults ./tests/faults
	$(CHECK) staticcheck -tags faults ./...
	$(CHECK) gosec $(GOSEC) ./...
	@found=$$($(CHECK) govulncheck ./... 2>&1) && echo "$$found" || { echo "$$found"; echo "$$found" | grep -q 'fetching vulnerabilities' && \
		echo 'THE DATABASE OF VULNERABILITIES CANNOT BE REACHED: NOT CHECKED'; }
	go mod tidy -diff
	go mod verify
	@major=$$(sed -n 's/^  version: \([0-9]*\).*/\1/p' openapi.yaml); released=gen/released/openapi-v$$major.yaml; \
		test ! -f $$released || $(oasdiff) $$released openapi.yaml || \
		{ echo "openapi.yaml breaks what $$released promised: see CHANGELOG.md"; exit 1; }
	@committed=$$(mktemp -d); cp -r gen/api.gen.go gen/typescript/src $$committed && $(MAKE) --no-print-directory generate && \
		diff -ru $$committed/api.gen.go gen/api.gen.go && diff -ru $$committed/src gen/typescript/src; stale=$$?; rm -r $$committed; \
		test $$stale = 0 || { echo 'could not regenerate gen/, or it was stale: commit it'; exit 1; }

generate: ## Regenerate gen/ from openapi.yaml (the TypeScript client needs Node)
	go generate ./gen
	@$(call need,npm,SKIPPED gen/typescript: npm is not installed) \
		cd gen/typescript && $(packages) && npm run --silent generate

.PHONY: help run build test race test-faults fuzz client test-clients test-browser test-oidc bench check generate
