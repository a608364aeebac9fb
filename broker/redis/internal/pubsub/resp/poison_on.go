//go:build race

package resp

// poison overwrites chunks that are to be used again, so that tests notice who uses
// what lies in them still.
const poison = true
