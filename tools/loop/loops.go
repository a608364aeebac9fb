package main

// Commands and variables that several end-to-end steps share.
const (
	raced      = "E2E_GYRO=$ROOT/.cache/gyro-race"
	plain      = "E2E_GYRO=$ROOT/.bin/gyro"
	raceServer = "go build -race -buildvcs=false -o .cache/gyro-race ./server/cmd/gyro && go build -race -buildvcs=false -o .cache/rig ./e2e/cmd/rig"
	server     = "cd server && CGO_ENABLED=0 go build -o ../.bin/gyro ./cmd/gyro"
	python     = "venv .cache/venv e2e/python/requirements.txt"
	javascript = "modules e2e/js"
	clientJS   = "cd clients/js && modules . && npm run --silent build"
	java       = "jars .cache/java e2e/java/pom.xml"
	rigJS      = "../../.cache/rig npm run --silent "
	rigPython  = ".cache/rig .cache/venv/bin/python -W ignore::ResourceWarning -m unittest discover -s e2e/python"
	twoRedis   = "E2E_NODES=2 "
	twoNATS    = "E2E_NODES=2 E2E_BROKER=nats "
	twoSQL     = "E2E_NODES=2 E2E_BROKER=postgres "
)

// cheap returns the stages that check and test begin with, for the packages that choose returns, which scope describes.
func cheap(scope string, choose selection) [][]step {
	return [][]step{
		{{name: "gofmt", about: "Go files are formatted", do: []action{gofmt}}},
		{{name: "layers", about: "packages import what tools/layers/layers.txt allows", do: []action{sh("go run ./tools/layers")}}},
		{{name: "generated", about: "generated files are what their sources make", do: []action{sh("go run ./tools/generate -check")}}},
		{{name: "vet", about: "`go vet` of " + scope, do: []action{vet(choose)}}},
		{{name: "lint", about: "golangci-lint of what changed and what imports it; pages and types that comments name", do: []action{installLinter, lint(changed), sh("go run ./tools/doccheck")}}},
		{{name: "biome", about: "TypeScript and JavaScript are formatted and without findings", needs: []string{"npm"}, do: []action{sh("scripts/biome.sh")}}},
	}
}

var loops = map[string]*loop{
	"check": {
		name: "check", about: "before every commit; needs Go alone",
		stages: append(cheap("what changed and what imports it", changed), []step{
			{name: "unit", about: "unit tests of the same packages, without the race detector", do: []action{testChanged}},
		}),
	},
	"test": {
		name: "test", about: "the product's proof in short; needs no root if the services are there", gyro: raced, width: 2, installs: true,
		stages: append(cheap("all packages", all), []step{
			{name: "server", about: "the server and the rig of the SDKs, with the race detector", prepares: true, do: []action{sh(raceServer)}},
		}, []step{
			{name: "unit", about: "unit, property and fixture tests of all modules, with the race detector", wants: []string{"curl", "gpg", "rpm", "ruby"},
				do: []action{together(testReaders("-race", "-short"), goTest(unit, "-race", "-short", "-parallel=8"))}},
		}, []step{
			{name: "services", about: "tests on a real Redis, NATS and PostgreSQL: each engine's conformance on one server", wants: []string{"redis-server", "initdb"},
				do: []action{goTest(services, "-race", "-short", "-p=3", "-parallel=8")}},
		}, []step{
			{name: "sdk-python", about: "centrifuge-python, and every method of the API by clients/python and cent, on memory and on two nodes with Redis",
				needs: []string{"python3-venv", "redis-server"}, do: []action{
					sh(python), together(sh(rigPython), sh(twoRedis+rigPython)),
				}},
			{name: "sdk-go", about: "centrifuge-go and its own suite, on memory and on two nodes with Redis", needs: []string{"redis-server"}, do: []action{
				goTestIn("./e2e/gosdk"), with("E2E_NODES=2", goTestIn("-run=TestScenarios", "./e2e/gosdk")),
			}},
			{name: "sdk-js", about: "npm centrifuge, on memory and on two nodes with Redis", needs: []string{"npm", "redis-server"}, do: []action{
				sh(javascript), together(shIn("e2e/js", rigJS+"test"), shIn("e2e/js", twoRedis+rigJS+"test")),
			}},
			{name: "readme", about: "the commands of README.md and of docs/getting-started.md", needs: []string{"python3-venv", "npm", "curl", "chromium"}, do: []action{
				sh(python), sh(javascript), sh(clientJS), goTestIn("-run=TestPages/(README|getting-started).md", "./e2e/docs"),
			}},
		}, []step{
			{name: "budgets", about: "budgets of allocations and memory, which the race detector distorts", do: []action{
				goTest(budgets, "-short", "-run="+distortedNames),
			}},
		}),
	},
	"ci": {
		name: "ci", about: "everything else", gyro: plain, width: 2, installs: true, thorough: true,
		stages: append([][]step{
			{{name: "server", about: "the server, also with the race detector, and the rig of the SDKs", prepares: true, do: []action{sh(raceServer), sh(server)}}},
			{
				{name: "generated", about: "generated files that take more than Go", needs: []string{"npm"}, do: []action{sh("go run ./tools/generate -check -all")}},
				{name: "lint", about: "golangci-lint of all packages", do: []action{installLinter, lint(all)}},
				{name: "cross", about: "the library for other systems and 32 bits", do: []action{cross}},
				{name: "interop", about: "tests of the module e2e that start servers and proxies", needs: []string{"python3-venv"},
					wants: []string{"redis-server", "nginx", "haproxy", "caddy", "openssl", "initdb"},
					do:    []action{sh(python), with(raced, goTest(interop, "-count=1", "-timeout=10m", "-p=2"))}},
				{name: "suites", about: "public suites: the cases of Autobahn against both drivers of WebSocket, h2spec, JSONTestSuite", needs: []string{"python3-venv", "npm"}, do: []action{
					sh(python), sh(javascript), goTestIn("./e2e/suites"),
				}},
				{name: "sdk-java", about: "centrifuge-java", needs: []string{"javac", "mvn"}, do: []action{
					sh(java), sh(".cache/rig java -cp '.cache/java/*' e2e/java/Scenarios.java"),
				}},
				{name: "deploy", about: "compose file, chart and manifests against their schemas", needs: []string{"python3-venv"}, do: []action{sh("scripts/deploy.sh")}},
				{name: "backends", about: "the example backends, with centrifuge-go", needs: []string{"python3-venv", "node"}, do: []action{
					sh(python), goTestIn("-timeout=10m", "./e2e/proxies"),
				}},
				{name: "long", about: "what `make test` leaves out of Go tests: engines on all kinds of servers, long property tests; without the race detector", wants: []string{"redis-server", "initdb"},
					do: []action{goTest(long, "-p=3", "-parallel=8", "-skip="+distortedNames)}},
				{name: "pages", about: "gyro dev, the admin web interface and the examples in Chromium", needs: []string{"npm", "chromium", "python3-venv"}, do: []action{
					sh(javascript), sh(python), sh(clientJS), sh("go build -o .cache/ ./examples/board ./examples/bot"),
					sh("root=$PWD; cd e2e/js; ../../.cache/rig env E2E_BOARD=$root/.cache/board E2E_BOT=$root/.cache/bot npm run --silent browser"),
				}},
				{name: "docs", about: "every block of README.md and docs, in seven languages", needs: []string{"python3-venv", "npm", "curl", "jq", "php", "ruby", "javac", "mcs", "chromium"}, do: []action{
					sh(python), sh(javascript), sh(clientJS), goTestIn("-timeout=15m", "./e2e/docs"),
				}},
				{name: "packages", about: "deb, rpm and image in a clean Debian; needs root", do: []action{sh("scripts/packages.sh")}},
				{name: "site", about: "the documentation as a web site, in Chromium", needs: []string{"npm", "chromium"}, do: []action{
					sh("scripts/site.sh"), sh(javascript), shIn("e2e/js", "npm run --silent site"),
				}},
				{name: "clients", about: "the client for JavaScript, also as npm centrifuge, and both clients over networks with faults", needs: []string{"npm"}, do: []action{
					sh("scripts/clients.sh"), with(raced, goTestIn("-timeout=10m", "./e2e/soak")),
					sh(javascript), shIn("e2e/js", rigJS+"entry"),
				}},
				{name: "generators", about: "clients of the server API that generators for Python and TypeScript make of its OpenAPI document; types of clients/python", needs: []string{"npm", "python3-venv"}, do: []action{
					sh("scripts/generators.sh"),
				}},
				{name: "installation", about: "modules from a proxy; examples/accounts in browsers", needs: []string{"npm", "chromium"}, do: []action{
					sh(javascript), goTestIn("-timeout=15m", "./e2e/install"),
				}},
			},
		}, alone(
			step{name: "simulation", about: "clusters in virtual time, for a minute", do: []action{
				goTestIn("-run=TestSearch", "./internal/simulation", "-search=1m", "-found=../../.cache/simulation"),
			}},
			step{name: "faults", about: "three nodes and 300 subscribers on engines that fail", wants: []string{"redis-server", "initdb"}, do: []action{
				goTestIn("-timeout=10m", "./e2e/faults"),
			}},
			step{name: "sdks", about: "npm centrifuge on two nodes with NATS and PostgreSQL", needs: []string{"npm", "initdb"}, do: []action{
				sh(javascript), with(raced, together(shIn("e2e/js", twoNATS+rigJS+"test"), shIn("e2e/js", twoSQL+rigJS+"test"))),
			}},
			step{name: "chromium", about: "npm centrifuge in Chromium, on memory, Redis and NATS, with TLS and without", needs: []string{"npm", "chromium", "redis-server"}, do: []action{
				sh(javascript),
				together(shIn("e2e/js", rigJS+"chromium"), shIn("e2e/js", twoRedis+rigJS+"chromium"), shIn("e2e/js", twoNATS+rigJS+"chromium")),
				together(shIn("e2e/js", "export E2E_TLS=true; "+rigJS+"chromium"), shIn("e2e/js", "export E2E_TLS=true; "+twoRedis+rigJS+"chromium"),
					shIn("e2e/js", "export E2E_TLS=true; "+twoNATS+rigJS+"chromium")),
			}},
			step{name: "stand", about: "the stand of a million connections, with 20,000", wants: []string{"redis-server"}, do: []action{
				goTestIn("-timeout=10m", "./e2e/million/..."),
			}},
		)...),
	},
}

// alone returns a stage for each step: they take all of the machine, or judge times.
func alone(steps ...step) (stages [][]step) {
	for _, s := range steps {
		stages = append(stages, []step{s})
	}
	return stages
}
