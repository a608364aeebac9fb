//go:build !386

package netio

import "syscall"

const sysAccept4 = syscall.SYS_ACCEPT4
