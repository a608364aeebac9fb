#!/usr/bin/env bash
# Makes the classes for Java and Objective-C of client/mobile by gobind, of a version, as gomobile bind does before it compiles them, and
# looks for all methods in them. gobind wants a module that requires its runtime, which this repository does not.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
repository=$PWD
module="$repository/.cache/mobile"
mkdir -p "$module"
cd "$module"
export GOWORK=off
cat > go.mod <<EOF
module mobile

go 1.26

require (
	github.com/gyrohq/gyro v0.0.0
	golang.org/x/mobile $version
)

replace github.com/gyrohq/gyro => $repository
EOF
cat > mobile.go <<'EOF'
package mobile

import (
	_ "github.com/gyrohq/gyro/client/mobile"
	_ "golang.org/x/mobile/bind"
)
EOF
go mod tidy
GOBIN="$module" go install golang.org/x/mobile/cmd/gobind
cd "$repository/client/mobile"
GOBIND="$module/gobind" GOBIND_MODULE="$module" go test -count=1 -run 'TestFlat|TestBindings' -v .
