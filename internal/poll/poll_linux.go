package poll

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"github.com/gyrohq/gyro/transport"
)

const batch = 256

// Poller watches descriptors, level-triggered. Another goroutine may call Wait, and only the loop the rest.
type Poller struct {
	// file is in Go's own poller, so that waiting holds a goroutine and no thread.
	file   *os.File
	raw    syscall.RawConn
	fd     int
	events [batch]syscall.EpollEvent
	// The first n events are set; the first served of these are handled.
	n, served int
	watched   []watch // by descriptor
}

type watch struct {
	w      transport.Watcher // nil: the descriptor is not watched
	events uint32
}

// New returns a poller without descriptors.
func New() (*Poller, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &Poller{file: os.NewFile(uintptr(fd), "epoll"), fd: fd}
	if p.raw, err = p.file.SyscallConn(); err != nil {
		_ = p.file.Close()
		return nil, err
	}
	return p, nil
}

// Supported reports whether New works on this system.
func Supported() bool { return true }

// Watch makes each Poll call w if fd, which must be non-blocking, is readable or writable, as asked for. w replaces an
// earlier watcher.
func (p *Poller) Watch(fd int, w transport.Watcher, read, write bool) error {
	for fd >= len(p.watched) {
		p.watched = append(p.watched, watch{})
	}
	if p.watched[fd].w != nil {
		p.watched[fd].w = w
		return p.Change(fd, read, write)
	}
	events := interest(read, write)
	if err := p.control(syscall.EPOLL_CTL_ADD, fd, events); err != nil {
		return err
	}
	p.watched[fd] = watch{w, events}
	return nil
}

// Change sets whether a descriptor is watched for reading and for writing.
func (p *Poller) Change(fd int, read, write bool) error {
	events := interest(read, write)
	if p.watched[fd].events == events {
		return nil
	}
	p.watched[fd].events = events
	return p.control(syscall.EPOLL_CTL_MOD, fd, events)
}

// Unwatch forgets a descriptor, which must still be open.
func (p *Poller) Unwatch(fd int) {
	if fd >= len(p.watched) || p.watched[fd].w == nil {
		return
	}
	p.watched[fd] = watch{}
	_ = p.control(syscall.EPOLL_CTL_DEL, fd, 0)
}

// Forget forgets a descriptor that is closed next, which removes it from the epoll set as well.
func (p *Poller) Forget(fd int) {
	if fd < len(p.watched) {
		p.watched[fd] = watch{}
	}
}

func interest(read, write bool) (events uint32) {
	if read {
		events |= syscall.EPOLLIN | syscall.EPOLLRDHUP
	}
	if write {
		events |= syscall.EPOLLOUT
	}
	return events
}

func (p *Poller) control(op, fd int, events uint32) error {
	e := syscall.EpollEvent{Events: events, Fd: int32(fd)}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_CTL, uintptr(p.fd), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(&e)), 0, 0)
	if errno != 0 {
		return fmt.Errorf("watching a socket: %w", os.NewSyscallError("epoll_ctl", errno))
	}
	return nil
}

// Poll calls the watchers of ready sockets, without waiting, and reports whether there may be more. It calls next before
// each and stops if that returns false; the next Poll goes on there. It notes in current which watcher it calls.
func (p *Poller) Poll(next func() bool, current *any) (more bool) {
	if p.served == p.n {
		p.served, p.n = 0, ready(p.fd, p.events[:])
	}
	for more = p.n > 0; p.served < p.n && next(); {
		e := &p.events[p.served]
		p.served++
		// A watcher may have closed this socket, or watch another one that got the same descriptor.
		if w := p.watched[e.Fd].w; w != nil {
			*current = w
			const broken = syscall.EPOLLERR | syscall.EPOLLHUP
			w.Ready(e.Events&(syscall.EPOLLIN|syscall.EPOLLRDHUP|broken) != 0, e.Events&(syscall.EPOLLOUT|broken) != 0)
		}
	}
	return more
}

// Wait calls wake whenever a descriptor has become ready, until the poller is closed. Go's poller is edge-triggered: if
// Poll found nothing, wake is called for everything that happens from then on; if Poll reported that there may be more,
// its caller has to call it again.
func (p *Poller) Wait(wake func()) {
	_ = p.raw.Read(func(uintptr) bool { // fails when the poller is closed
		wake()
		return false
	})
}

// ready does not wait, so the scheduler need not know of the call.
func ready(fd int, events []syscall.EpollEvent) int {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(fd),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// Close ends Wait, calls Ended of the watchers that are left, and frees the poller.
func (p *Poller) Close() {
	for _, v := range p.watched {
		if v.w != nil {
			v.w.Ended()
		}
	}
	_ = p.file.Close()
}
