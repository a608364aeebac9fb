//go:build !race

package resp

const poison = false
