//go:build race

package sendqueue

// poison has an arena overwrite the frames that it forgets, so that tests notice if they are
// still used.
const poison = true
