// Package enginekit has the parts that engines have in common: the states of a broker, attempts to connect and the
// pauses between them, work that repeats, and what every engine sets on a publication. Engines of other modules may use
// it.
package enginekit
