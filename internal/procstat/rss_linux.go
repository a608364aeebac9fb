package procstat

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

func resident() (int64, error) {
	const file = "/proc/self/statm"
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("%s: %q", file, text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return pages * int64(os.Getpagesize()), nil
}
