package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/server/internal/tools/cli"
	"github.com/gyrohq/gyro/server/internal/transports/dictionary"
	"github.com/gyrohq/gyro/transport/websocket"
)

func dictCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "dict", Short: "Make dictionaries for the compression of messages", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(dictTrainCommand())
	return cmd
}

// Bytes of one line and of all, and lines.
const (
	maxSample  = 1 << 20
	maxSamples = 64 << 20
)

func dictTrainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "train [FILE]",
		Short: "Make a dictionary from samples of messages",
		Long: `Make a dictionary from samples of messages, one per line, of FILE or stdin.

Clients learn the dictionary. So a text gets into it only if it is in the samples of
several sources: each line is a source, or with --sources the part of a line before
its first tab, such as a user. Look at the result before you use it.`,
		Args: cobra.MaximumNArgs(1),
	}
	out := cmd.Flags().StringP("output", "o", "", "file for the dictionary; required, and must not exist")
	size := cmd.Flags().Int("size", 8<<10, fmt.Sprintf("most bytes of the dictionary, up to %d: each KiB costs memory traffic per message", websocket.MaxDictionary))
	least := cmd.Flags().Int("least", 20, "number of sources that have to have a text")
	print := printer(cmd)
	sources := cmd.Flags().Bool("sources", false, "lines are SOURCE<tab>MESSAGE")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *out == "":
			return cli.Usage("--output is required")
		case *size < 1 || *size > websocket.MaxDictionary:
			return cli.Usage("--size: %d is not within 1 and %d", *size, websocket.MaxDictionary)
		case *least < 2:
			return cli.Usage("--least: %d is less than 2, so that what one source alone has would show", *least)
		}
		in := cmd.InOrStdin()
		if len(args) > 0 {
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			in = f
		}
		samples, err := readSamples(in, *sources)
		if err != nil {
			return err
		}
		data := dictionary.Train(samples, dictionary.Options{Size: *size, Sources: *least})
		if len(data) == 0 {
			return fmt.Errorf("%d samples have no text in common that %d sources have", len(samples), *least)
		}
		f, err := os.OpenFile(*out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		if _, err = f.Write(data); err != nil {
			return errors.Join(err, f.Close())
		}
		if err := f.Close(); err != nil {
			return err
		}
		return print(cmd, fmt.Sprintf("%s: %d bytes from %d samples\n", *out, len(data), len(samples)),
			map[string]any{"file": *out, "bytes": len(data), "samples": len(samples)})
	}
	return cmd
}

func readSamples(r io.Reader, sources bool) (samples []dictionary.Sample, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxSample)
	size := 0
	for n := 1; lines.Scan(); n++ {
		source, text := "", lines.Text()
		if text == "" {
			continue
		}
		if sources {
			var ok bool
			if source, text, ok = strings.Cut(text, "\t"); !ok || source == "" {
				return nil, fmt.Errorf("line %d: no SOURCE<tab> in front", n)
			}
		}
		if size += len(text); size > maxSamples {
			return nil, fmt.Errorf("line %d: the samples have more than %d bytes", n, maxSamples)
		}
		samples = append(samples, dictionary.Sample{Source: source, Text: []byte(text)})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("after %d samples: %w", len(samples), err)
	}
	return samples, nil
}
