// Command mutants measures the simulator: it puts one small fault after the other into the product, and runs the seeds
// of the simulator until one fails. No source is edited: the compiler gets the faulty file as an overlay.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	limit := flag.Duration("time", 10*time.Minute, "the longest time for the seeds of a mutant")
	hang := flag.Duration("hang", 20*time.Second, "a run that tells nothing for so long hangs")
	names := flag.String("names", "", "only these mutants, with commas between them")
	flag.Parse()
	if err := measure(*limit, *hang, *names); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// measure runs mutants, and fails if the simulator does not find one that it alone can find.
func measure(limit, hang time.Duration, names string) error {
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	root, err := repository()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	h := hunt{root, work, limit, hang, filepath.Join(work, "sound.test")}
	if err := h.compile(h.sound); err != nil {
		return err
	}
	var missed []string
	for _, m := range chosen {
		found := h.run(m)
		fmt.Fprintf(w, "%s\t%.1f s\tseed %s\t%s\n", m.Name, found.took.Seconds(), found.seed, found.failure)
		_ = w.Flush()
		if !found.ok && m.By == "" {
			missed = append(missed, m.Name)
		}
	}
	fmt.Printf("%d of %d mutants are not found\n", len(missed), len(chosen))
	if len(missed) > 0 {
		return errors.New("not found: " + strings.Join(missed, ", "))
	}
	return nil
}

// choose returns the mutants with these names; without names, all.
func choose(names string) ([]mutant, error) {
	if names == "" {
		return table, nil
	}
	var chosen []mutant
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(table, func(m mutant) bool { return m.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no mutant %q", name)
		}
		chosen = append(chosen, table[i])
	}
	return chosen, nil
}

// repository returns the folder with go.work, at or above the working directory.
func repository() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(at, "go.work")); err == nil {
			return at, nil
		}
		up := filepath.Dir(at)
		if up == at {
			return "", errors.New("no folder above has go.work")
		}
		at = up
	}
}
