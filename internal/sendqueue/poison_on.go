//go:build race

package sendqueue

// poison makes arenas overwrite the frames that they forget, so that tests notice their use.
const poison = true
