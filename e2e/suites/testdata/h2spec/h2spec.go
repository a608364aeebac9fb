//go:build tools

// Package h2spec has the program in go.mod.
package h2spec

import _ "github.com/summerwind/h2spec/cmd/h2spec"
