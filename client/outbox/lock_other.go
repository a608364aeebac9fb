//go:build !unix || solaris || aix

package outbox

import "os"

func lock(*os.File) error { return nil }

// syncDir does nothing: not all systems can flush a folder.
func syncDir(*os.File) error { return nil }
