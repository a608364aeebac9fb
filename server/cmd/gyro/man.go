package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man",
		Short:  "Print the manual page, in roff",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE:   func(cmd *cobra.Command, _ []string) error { return writeManual(cmd.OutOrStdout(), cmd.Root()) },
	}
}

// writeManual writes the page gyro(1). It has no date, so that the same program makes the same page.
func writeManual(w io.Writer, root *cobra.Command) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH GYRO 1 \"\" \"Gyro %s\" \"User commands\"\n", roff(version))
	fmt.Fprintf(&b, ".SH NAME\ngyro \\- %s\n", roff("real-time messaging server, and commands for it"))
	fmt.Fprint(&b, ".SH SYNOPSIS\n.B gyro\n[\\fIflags\\fR]\n.br\n.B gyro\n\\fIcommand\\fR [\\fIflags\\fR]\n")
	fmt.Fprint(&b, ".SH DESCRIPTION\nWithout a command,\n.B gyro\nruns the server: see /etc/gyro/config.json, and\n.B gyro configdoc\nfor all keys.\n")
	fmt.Fprint(&b, ".SH OPTIONS\n")
	manualFlags(&b, root.LocalNonPersistentFlags())
	fmt.Fprint(&b, ".SH COMMANDS\n")
	manualCommands(&b, root)
	fmt.Fprintf(&b, ".SH EXIT STATUS\n0 if it is done, 1 if it failed, 2 if arguments or flags are wrong, 130 and 143 if SIGINT or SIGTERM ended a command.\nThe server ends with 0 then.\n")
	fmt.Fprint(&b, ".SH FILES\n.TP\n/etc/gyro/config.json\nsettings of the packages\n.TP\n/etc/gyro/gyro.env\ntheir secrets, as variables\n")
	fmt.Fprint(&b, ".SH SIGNALS\n.TP\nSIGHUP\nread the configuration again\n.TP\nSIGUSR1\nopen log.file anew\n.TP\nSIGTERM, SIGINT\nsend the clients away and end; a second one ends at once\n")
	_, err := w.Write(b.Bytes())
	return err
}

func manualCommands(b *bytes.Buffer, parent *cobra.Command) {
	for _, c := range parent.Commands() {
		if !c.IsAvailableCommand() || c.Name() == "help" {
			continue
		}
		fmt.Fprintf(b, ".SS %s\n", roff(c.UseLine()))
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		fmt.Fprintf(b, "%s\n", roff(text))
		if c.Example != "" {
			fmt.Fprintf(b, ".PP\n.nf\n%s\n.fi\n", roff(c.Example))
		}
		manualFlags(b, c.NonInheritedFlags())
		manualCommands(b, c)
	}
}

func manualFlags(b *bytes.Buffer, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(b, ".TP\n\\fB%s\\fR", roff(name))
		if value != "" {
			fmt.Fprintf(b, " \\fI%s\\fR", roff(value))
		}
		if none := f.DefValue; none != "" && none != "false" && none != "0" && none != "[]" && none != "0s" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(b, "\n%s\n", roff(usage))
	})
}

// roff escapes a text: a line that begins with a point or an apostrophe would be a request.
func roff(text string) string {
	text = strings.ReplaceAll(strings.TrimRight(text, "\n"), `\`, `\e`)
	text = strings.ReplaceAll(text, "-", `\-`)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "."), strings.HasPrefix(line, "'"):
			lines[i] = `\&` + line
		case line == "":
			lines[i] = ".sp"
		}
	}
	return strings.Join(lines, "\n")
}
