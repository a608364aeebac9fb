// Package stand keeps books about a cluster under faults: subscribers that check
// every publication of a numbered sequence, publishers that repeat what was not
// acknowledged, and watchers of the nodes' health and resources.
package stand
