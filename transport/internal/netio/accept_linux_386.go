package netio

// sysAccept4 is the number of a system call that package syscall does not name.
const sysAccept4 = 364
