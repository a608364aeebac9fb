// Package contain keeps a panic from the process.
package contain

import "runtime/debug"

// Do calls f, and reports false if it panicked, which told hears of.
func Do(f func(), told func(reason any, stack []byte)) (ok bool) {
	defer func() {
		if r := recover(); r != nil {
			told(r, debug.Stack())
		}
	}()
	f()
	return true
}
