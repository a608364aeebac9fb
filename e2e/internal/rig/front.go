package rig

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
)

// Front is a load balancer: a program in front of nodes.
type Front struct{ *process }

// StartFront returns when the load balancer listens at the address.
func StartFront(cmd *exec.Cmd, address string) (*Front, error) {
	p, err := run(cmd)
	if err != nil {
		return nil, err
	}
	err = p.await(func() bool {
		conn, err := net.Dial("tcp", address)
		return err == nil && conn.Close() == nil
	})
	if err != nil {
		return nil, fmt.Errorf("%q: %w: %s", cmd.Args, err, &p.output)
	}
	return &Front{p}, nil
}

func (f *Front) Signal(s syscall.Signal) { _ = f.cmd.Process.Signal(s) } // it may have ended already

// Stop ends the load balancer by SIGTERM.
func (f *Front) Stop() {
	f.Signal(syscall.SIGTERM)
	<-f.exited
}

// Log returns the output of the load balancer so far.
func (f *Front) Log() string { return f.output.String() }

// Nginx returns arguments for a file in a folder.
func Nginx(dir, file string) []string { return []string{"-p", dir, "-c", file, "-g", "daemon off;"} }

// WholeNginx is a configuration with these parts events and http.
func WholeNginx(events, http string) string {
	return "error_log /dev/stderr warn;\npid nginx.pid;\nevents {" + events + "}\nhttp {\naccess_log off;\n" + http + "\n}\n"
}

// Example returns a file of docs/load-balancers.md of the repository in the folder root.
func Example(root, name string) (string, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs/load-balancers.md"))
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile("(?ms)^```\\w+ file=" + regexp.QuoteMeta(name) + "\n(.*?)^```$").FindSubmatch(page)
	if found == nil {
		return "", fmt.Errorf("docs/load-balancers.md has no %s", name)
	}
	return string(found[1]), nil
}
