package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gyrohq/gyro/gyrotest/need"
)

// installMissing does nothing without apt-get, or without root or a sudo that asks for no password. It waits for another
// process that installs at the same time.
func installMissing(ctx context.Context, out io.Writer, programs []string) error {
	packages := missing(programs)
	if len(packages) == 0 {
		return nil
	}
	prefix, ok := rights(ctx)
	if !ok {
		return nil
	}
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "gyro-packages.lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if packages = missing(programs); len(packages) == 0 {
		return nil
	}
	begin := time.Now()
	fmt.Fprintf(out, "== install: %s\n", strings.Join(packages, " "))
	update := append(slices.Clone(prefix), "apt-get", "update", "-qq")
	install := append(append(slices.Clone(prefix), "env", "DEBIAN_FRONTEND=noninteractive", "apt-get",
		"-o", "DPkg::Lock::Timeout=120", "install", "-y", "-qq", "--no-install-recommends"), packages...)
	for _, argv := range [][]string{update, install} {
		if err := retry(ctx, argv); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "-- install: %s\n", since(begin))
	return nil
}

func missing(programs []string) (packages []string) {
	for _, program := range programs {
		if _, ok := need.Find(program); !ok {
			packages = append(packages, strings.Fields(need.Packages(program))...)
		}
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// rights returns the words before apt-get, such as sudo, and whether this user may install packages.
func rights(ctx context.Context) (prefix []string, ok bool) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, false
	}
	if os.Getuid() == 0 {
		return nil, true
	}
	return []string{"sudo", "-n"}, exec.CommandContext(ctx, "sudo", "-n", "true").Run() == nil
}

// retry runs a command that needs the network up to three times.
func retry(ctx context.Context, argv []string) (err error) {
	for _, pause := range []time.Duration{0, 2 * time.Second, 5 * time.Second} {
		time.Sleep(pause)
		var printed []byte
		if printed, err = exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err == nil {
			return nil
		}
		err = fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, printed)
	}
	return err
}
