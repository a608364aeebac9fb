// Package costs measures what a node costs: allocations of publications and commands, and bytes of connections. Its
// tests run one after the other, in a process that does nothing else. The race detector distorts what they measure,
// so they are not built with it.
package costs
