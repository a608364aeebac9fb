package api_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/internal/apitest"
)

// told is what an observer was told.
type told []string

func (o *told) Executed(m api.Method, _ time.Duration, _ api.Result, err error) {
	*o = append(*o, fmt.Sprint(m, " ", err != nil))
}
func (o *told) Called(extension string, _ time.Duration) { *o = append(*o, "called "+extension) }
func (o *told) Failed(m api.Method, s api.Stage)         { *o = append(*o, fmt.Sprint(m, " ", s)) }

// TestObserved: an extension that exists is told by its name, any other name is not.
func TestObserved(t *testing.T) {
	failing := errors.New("down")
	exec := api.NewExecutor(api.Config{
		Node: &apitest.Node{}, Channels: apitest.Namespaces(), Logger: slog.New(slog.DiscardHandler),
		RPC: map[string]api.RPCHandler{
			"works": func(context.Context, []byte) ([]byte, error) { return nil, nil },
			"fails": func(context.Context, []byte) ([]byte, error) { return nil, failing },
		},
	})
	var got told
	for _, method := range []string{"works", "fails", "made up", ""} {
		_, _ = api.Observed{By: &got}.Execute(t.Context(), exec, api.MethodRPC, &api.RPCRequest{Method: method})
		_, _ = api.Observed{}.Execute(t.Context(), exec, api.MethodRPC, &api.RPCRequest{Method: method})
	}
	_, _ = api.Observed{By: &got}.Execute(t.Context(), exec, api.MethodInfo, &api.InfoRequest{})
	if want := (told{"rpc false", "called works", "rpc true", "called fails", "rpc true", "rpc true", "info false"}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
