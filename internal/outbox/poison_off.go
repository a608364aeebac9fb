//go:build !race

package outbox

const poison = false
