// Package enginekit has what engines have in common: the states of a broker, attempts to connect, work that repeats, and
// what every engine sets on a publication. Engines of other modules may use it.
package enginekit
