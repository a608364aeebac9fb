//go:build unix

package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/gyrohq/gyro/server/internal/observe/logs"
)

func reopens(log *slog.Logger) (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		for {
			select {
			case <-signals:
				reopen(log)
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) } // the signal stays caught: without that it would end the process
}

func reopen(log *slog.Logger) {
	switch there, err := logs.Of(log).Reopen(); {
	case !there:
		log.Warn("SIGUSR1 opens log.file anew, and there is none", "key", "log.file")
	case err != nil:
		log.Error("log.file cannot be opened anew, lines go to the old one", "key", "log.file", "error", err)
	default:
		log.Info("log.file is opened anew")
	}
}
