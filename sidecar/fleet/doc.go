// Package fleet makes a process a member of a fleet that shares a NATS server: Replica is its identity, Learning follows
// the current model version, monitors scores and labels for drift, and runs training jobs in child processes, and
// ControlPlane serves the requests of operators about feedback, models and training runs. RunTrainer runs a process that
// only trains.
package fleet
