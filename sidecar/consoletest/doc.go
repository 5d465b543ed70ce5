// Package consoletest tests the console in a browser: Chromium, without a window,
// on a running service with the shipped model, by mouse and by keyboard. The tests
// are skipped where there is no Chromium, and with -short.
package consoletest
