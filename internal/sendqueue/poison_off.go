//go:build !race

package sendqueue

const poison = false
