//go:build race

package outbox

// poison overwrites frames that are forgotten, so that tests notice who uses them
// still.
const poison = true
