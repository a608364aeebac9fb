package poll

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"github.com/gyrohq/gyro/transport"
)

// batch is how many descriptors one Poll serves at most.
const batch = 256

// Poller watches descriptors, level-triggered. Wait may be called by a goroutine of
// its own; everything else belongs to the loop.
type Poller struct {
	// file is the epoll descriptor in Go's own poller, so that waiting holds a
	// goroutine and no thread.
	file   *os.File
	raw    syscall.RawConn
	fd     int
	probe  [1]syscall.EpollEvent
	events [batch]syscall.EpollEvent
	// n of them are known, served the first ones.
	n, served int
	watched   []watch // by descriptor
	count     int
}

// watch is what is watched of a descriptor.
type watch struct {
	w      transport.Watcher // nil: nothing
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

// Supported tells whether New works on this system.
func Supported() bool { return true }

// Watch calls w when fd is readable or writable, as asked for, from the next Poll
// on. fd must be non-blocking. If it is watched already, w takes the place of its
// watcher.
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
	p.count++
	return nil
}

// Change sets what is watched of a descriptor.
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
	p.count--
	_ = p.control(syscall.EPOLL_CTL_DEL, fd, 0)
}

// Len is the number of descriptors.
func (p *Poller) Len() int { return p.count }

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

// Poll calls the watchers of what is ready now, for as long as next, which is called
// before each, allows it, and reports whether there may be more. Who is left is first
// in the next Poll. The watcher that is called is noted in current. It does not wait.
func (p *Poller) Poll(next func() bool, current *any) (more bool) {
	if p.served == p.n {
		p.served, p.n = 0, ready(p.fd, p.events[:])
	}
	for more = p.n > 0; p.served < p.n && next(); {
		e := &p.events[p.served]
		p.served++
		// A watcher that was called before may have closed this one, or even watch
		// another socket that got its number.
		if w := p.watched[e.Fd].w; w != nil {
			*current = w
			const broken = syscall.EPOLLERR | syscall.EPOLLHUP
			w.Ready(e.Events&(syscall.EPOLLIN|syscall.EPOLLRDHUP|broken) != 0, e.Events&(syscall.EPOLLOUT|broken) != 0)
		}
	}
	return more
}

// Wait blocks until Poll may have something to do. The error is that of a closed
// poller.
func (p *Poller) Wait() error {
	return p.raw.Read(func(fd uintptr) bool { return ready(int(fd), p.probe[:]) > 0 })
}

// ready asks without waiting, so the scheduler need not know.
func ready(fd int, events []syscall.EpollEvent) int {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(fd),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// Close ends Wait, tells the watchers that are left, and frees the poller.
func (p *Poller) Close() {
	for _, v := range p.watched {
		if v.w != nil {
			v.w.Ended()
		}
	}
	_ = p.file.Close()
}
