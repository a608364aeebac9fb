package top

import (
	"os"

	"golang.org/x/sys/windows"
)

func sequences(out *os.File) (undo func(), err error) {
	console := windows.Handle(out.Fd())
	var was uint32
	if err := windows.GetConsoleMode(console, &was); err != nil {
		return nil, err
	}
	if err := windows.SetConsoleMode(console, was|windows.ENABLE_PROCESSED_OUTPUT|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING); err != nil {
		return nil, err
	}
	return func() { _ = windows.SetConsoleMode(console, was) }, nil // the process ends
}
