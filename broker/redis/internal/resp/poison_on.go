//go:build race

package resp

// poison overwrites chunks that are free, so that tests notice users of their former values.
const poison = true
