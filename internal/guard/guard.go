// Package guard bounds the damage that code of others does to a node: Do contains a panic, and PerMinute bounds how often
// a key makes the node act.
package guard

import "runtime/debug"

// Do calls f and reports whether it returned. If f panicked, Do has called told with the result of recover and the
// stack.
func Do(f func(), told func(reason any, stack []byte)) (ok bool) {
	defer func() {
		if r := recover(); r != nil {
			told(r, debug.Stack())
		}
	}()
	f()
	return true
}
