// Package stand runs a cluster for tests of faults, and records what its clients see: subscribers
// check every publication of a numbered sequence, publishers repeat what was not acknowledged, and
// watches ask the nodes for their health.
package stand
