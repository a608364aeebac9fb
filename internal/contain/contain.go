// Package contain keeps a panic from ending the process.
package contain

import "runtime/debug"

// Do calls f and reports whether it returned. If f panicked, Do has called told with what
// recover returned and the stack.
func Do(f func(), told func(reason any, stack []byte)) (ok bool) {
	defer func() {
		if r := recover(); r != nil {
			told(r, debug.Stack())
		}
	}()
	f()
	return true
}
