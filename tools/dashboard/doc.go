// Package dashboard has a test for the Grafana dashboards and the alerts that the repository offers: what they
// ask for is what docs/metrics.md lists.
package dashboard
