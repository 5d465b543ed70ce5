// Package fleet sizes a fleet of replicas: it measures one of them and its NATS, loads a fleet with responses at given
// times, and simulates many replicas with package fleetsim. It does not depend on how responses are scored: what it
// measures is a running service, or a scorer that takes no time.
package fleet
