// Package fleet makes a process one of a fleet that shares a NATS server: Replica is its identity, Learning follows the
// current model version, watches scores and labels for drift, and runs training jobs in child processes, and ControlPlane
// answers what operators ask about feedback, models and training runs. RunTrainer is a process that only trains.
package fleet
