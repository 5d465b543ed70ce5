// Package daemon has the commands that run until they receive a signal, serve and trainer: their flags, which become a
// serve.Config or a fleet.TrainerConfig, the settings that take effect at run time, and the output when ready.
package daemon
