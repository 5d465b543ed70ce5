// Package daemon has the commands that run until a signal ends them, serve and trainer: their flags, which become a
// serve.Config or a fleet.TrainerConfig, the settings that take effect while they run, and what they print when ready.
package daemon
