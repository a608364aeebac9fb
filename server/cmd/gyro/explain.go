package main

import (
	"cmp"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/server/api"
	"github.com/gyrohq/gyro/server/cli/explained"
)

// explainCommand tells why a user does not get messages.
func explainCommand() *cobra.Command {
	var r api.ExplainRequest
	var s explained.Server
	var asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Tell why a user does not get messages",
		Long: `Tell why a user does not get messages: the user's connections on all nodes, what happened
to them of late, and step by step whether the user may subscribe to a channel. It asks a running
server by its HTTP API. The API key can also be in the variable GYRO_HTTP_API_KEY.`,
		Example: `  gyro explain --user 42
  gyro explain --user 42 --channel chat:index`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVarP(&r.User, "user", "u", "", "ID of the user")
	f.StringVar(&r.Channel, "channel", "", "channel whose messages are missing; empty for any")
	f.Int32Var(&r.Limit, "limit", 50, "most events, the latest; up to 1000")
	f.StringVar(&s.URL, "api", "http://127.0.0.1:8000/api", "HTTP API of the server")
	f.StringVar(&s.Key, "api-key", "", "API key; default: $GYRO_HTTP_API_KEY")
	f.DurationVar(&timeout, "timeout", 15*time.Second, "how long to wait for the answer")
	f.BoolVar(&asJSON, "json", false, "print the answer of the API as it is")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if r.User == "" {
			return errors.New("--user is missing")
		}
		s.Key, s.HTTP = cmp.Or(s.Key, os.Getenv("GYRO_HTTP_API_KEY")), &http.Client{Timeout: timeout}
		res, text, err := s.Ask(cmd.Context(), &r)
		switch {
		case err != nil:
			return err
		case asJSON:
			_, err = cmd.OutOrStdout().Write(append(text, '\n'))
			return err
		}
		return explained.Write(cmd.OutOrStdout(), res, time.Now())
	}
	return cmd
}
