// Package costs measures the costs of a node: allocations of publications and commands, and bytes of connections. Its
// tests run one after the other, in a process that does nothing else. The race detector distorts the measurements, so
// they are not built with it.
package costs
