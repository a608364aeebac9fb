package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A dictionary is trained from samples, and a configuration takes it.
func TestDict(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var lines, own strings.Builder
	for n := range 50 {
		message := fmt.Sprintf(`{"push":{"channel":"prices","pub":{"data":{"price":%d,"currency":"EUR"}}}}`, n)
		fmt.Fprintln(&lines, message)
		fmt.Fprintf(&own, "user%d\t%s\n", n%30, message)
	}
	write(t, dir, "samples", lines.String())
	write(t, dir, "own", own.String())
	write(t, dir, "bad", "user1\t{}\nno source\n")
	out := succeed(t, dir, "dict", "train", "-o", "prices.dict", "samples")
	data, err := os.ReadFile(filepath.Join(dir, "prices.dict"))
	if err != nil || !strings.Contains(string(data), `{"push":{"channel":"prices","pub":{"data":{"price":`) ||
		out != fmt.Sprintf("prices.dict: %d bytes from 50 samples\n", len(data)) {
		t.Errorf("%q, %v: %s", data, err, out)
	}
	succeed(t, dir, "dict", "train", "--sources", "--least", "30", "-o", "own.dict", "own")
	for want, args := range map[string][]string{
		"--output is required": {"samples"},
		"--size: 0":            {"-o", "x", "--size", "0", "samples"},
		"--size: 32769":        {"-o", "x", "--size", "32769", "samples"},
		"--least: 1":           {"-o", "x", "--least", "1", "samples"},
	} {
		misuse(t, dir, want, append([]string{"dict", "train"}, args...)...)
	}
	for want, args := range map[string][]string{
		"prices.dict: file exists":        {"-o", "prices.dict", "samples"},
		"that 51 sources have":            {"-o", "x", "--least", "51", "samples"},
		"that 31 sources have":            {"-o", "x", "--least", "31", "--sources", "own"},
		"line 2: no SOURCE<tab> in front": {"-o", "x", "--sources", "bad"},
		"open none":                       {"-o", "x", "none"},
	} {
		fail(t, dir, want, append([]string{"dict", "train"}, args...)...)
	}
	write(t, dir, "config.json", `{"websocket":{"dictionaries":[{"name":"prices","encoding":"json","file":"prices.dict"}]}}`)
	succeed(t, dir, "checkconfig")
	write(t, dir, "config.json", `{"websocket":{"dictionaries":[{"name":"prices","encoding":"json","file":"none.dict"}]}}`)
	fail(t, dir, "websocket.dictionaries[0](prices).file: open none.dict", "checkconfig")
	write(t, dir, "config.json", `{"websocket":{"dictionaries":[{"name":"prices","encoding":"xml","file":"prices.dict"}]}}`)
	fail(t, dir, `websocket.dictionaries[0](prices).encoding: "xml" is not one of json, protobuf`, "checkconfig")
}
