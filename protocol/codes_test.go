package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestErrorCodes(t *testing.T) {
	table := []struct {
		got       *Error
		code      uint32
		message   string
		temporary bool
	}{
		{ErrorInternal, 100, "internal server error", true},
		{ErrorUnauthorized, 101, "unauthorized", false},
		{ErrorUnknownChannel, 102, "unknown channel", false},
		{ErrorPermissionDenied, 103, "permission denied", false},
		{ErrorMethodNotFound, 104, "method not found", false},
		{ErrorAlreadySubscribed, 105, "already subscribed", false},
		{ErrorLimitExceeded, 106, "limit exceeded", false},
		{ErrorBadRequest, 107, "bad request", false},
		{ErrorNotAvailable, 108, "not available", false},
		{ErrorTokenExpired, 109, "token expired", false},
		{ErrorExpired, 110, "expired", false},
		{ErrorTooManyRequests, 111, "too many requests", true},
		{ErrorUnrecoverablePosition, 112, "unrecoverable position", false},
		{ErrorConcurrentPagination, 113, "concurrent pagination", true},
	}
	for i, tt := range table {
		if want := (Error{tt.code, tt.message, tt.temporary}); *tt.got != want {
			t.Errorf("%+v, want %+v", *tt.got, want)
		}
		if want := uint32(100 + i); tt.code != want {
			t.Errorf("code %d where %d is expected", tt.code, want)
		}
	}
}

func TestDisconnectCodes(t *testing.T) {
	table := []struct {
		got      Disconnect
		code     uint32
		reason   string
		terminal bool
	}{
		{DisconnectConnectionClosed, 3000, "connection closed", false},
		{DisconnectShutdown, 3001, "shutdown", false},
		{DisconnectServerError, 3004, "internal server error", false},
		{DisconnectExpired, 3005, "connection expired", false},
		{DisconnectSubExpired, 3006, "subscription expired", false},
		{DisconnectSlow, 3008, "slow", false},
		{DisconnectWriteError, 3009, "write error", false},
		{DisconnectInsufficientState, 3010, "insufficient state", false},
		{DisconnectForceReconnect, 3011, "force reconnect", false},
		{DisconnectNoPong, 3012, "no pong", false},
		{DisconnectTooManyRequests, 3013, "too many requests", false},
		{DisconnectStateInvalidated, 3014, "state invalidated", false},
		{DisconnectInvalidToken, 3500, "invalid token", true},
		{DisconnectBadRequest, 3501, "bad request", true},
		{DisconnectStale, 3502, "stale", true},
		{DisconnectForceNoReconnect, 3503, "force disconnect", true},
		{DisconnectConnectionLimit, 3504, "connection limit", true},
		{DisconnectChannelLimit, 3505, "channel limit", true},
		{DisconnectInappropriateProtocol, 3506, "inappropriate protocol", true},
		{DisconnectPermissionDenied, 3507, "permission denied", true},
		{DisconnectNotAvailable, 3508, "not available", true},
		{DisconnectTooManyErrors, 3509, "too many errors", true},
	}
	seen := make(map[uint32]bool)
	for _, tt := range table {
		if tt.got.Code != tt.code || tt.got.Reason != tt.reason || tt.got.Reconnect {
			t.Errorf("%+v, want %d %q", tt.got, tt.code, tt.reason)
		}
		if tt.got.Terminal() != tt.terminal {
			t.Errorf("%d: terminal is %v", tt.code, !tt.terminal)
		}
		if seen[tt.code] {
			t.Errorf("%d is there twice", tt.code)
		}
		seen[tt.code] = true
		checkReason(t, tt.reason)
	}
}

func TestUnsubscribeCodes(t *testing.T) {
	table := []struct {
		got    Unsubscribe
		code   uint32
		reason string
	}{
		{UnsubscribeClient, 0, "client unsubscribed"},
		{UnsubscribeDisconnect, 1, "client disconnected"},
		{UnsubscribeServer, 2000, "server unsubscribe"},
		{UnsubscribeInsufficientState, 2500, "insufficient state"},
		{UnsubscribeExpired, 2501, "subscription expired"},
		{UnsubscribeStateInvalidated, 2502, "state invalidated"},
	}
	for _, tt := range table {
		if want := (Unsubscribe{tt.code, tt.reason}); tt.got != want {
			t.Errorf("%+v, want %+v", tt.got, want)
		}
		checkReason(t, tt.reason)
	}
}

// checkReason checks what SDKs demand of a reason.
func checkReason(t *testing.T, reason string) {
	t.Helper()
	if reason == "" || len(reason) > 123 || json.Valid([]byte(reason)) {
		t.Errorf("no good reason: %q", reason)
	}
}

func TestTerminal(t *testing.T) {
	for code, want := range map[uint32]bool{
		2999: false, 3000: false, 3499: false, 3500: true, 3999: true,
		4000: false, 4499: false, 4500: true, 4999: true, 5000: false,
	} {
		if got := (Disconnect{Code: code}).Terminal(); got != want {
			t.Errorf("%d: %v", code, got)
		}
	}
}

func TestCodesAreErrors(t *testing.T) {
	wrapped := fmt.Errorf("publish: %w", &Error{Code: 103, Message: "other words"})
	if !errors.Is(wrapped, ErrorPermissionDenied) || errors.Is(wrapped, ErrorBadRequest) {
		t.Error("errors are not told apart by their codes")
	}
	if got := wrapped.Error(); !strings.Contains(got, "103: other words") {
		t.Error(got)
	}
	var d Disconnect
	if err := fmt.Errorf("connect: %w", DisconnectStale); !errors.As(err, &d) || d != DisconnectStale || err.Error() != "connect: disconnect 3502: stale" {
		t.Error(err)
	}
}

// A value and a pointer are the same error, wrapped or not.
func TestValuesAndPointers(t *testing.T) {
	e, d := Error{Code: 1000, Message: "no luck", Temporary: true}, Disconnect{Code: 4100, Reason: "go away"}
	for _, wrap := range []func(error) error{
		func(err error) error { return err },
		func(err error) error { return fmt.Errorf("because: %w", err) },
		func(err error) error { return errors.Join(io.EOF, err) },
	} {
		for _, err := range []error{wrap(e), wrap(&e)} {
			value, isValue := errors.AsType[Error](err)
			pointer, isPointer := errors.AsType[*Error](err)
			if !isValue || !isPointer || value != e || *pointer != e {
				t.Errorf("%v: %v, %v", err, value, pointer)
			}
			if !errors.Is(err, e) || !errors.Is(err, &Error{Code: 1000}) || errors.Is(err, ErrorBadRequest) || errors.Is(err, (*Error)(nil)) || errors.Is(err, d) {
				t.Errorf("%v: is another one", err)
			}
			if _, is := errors.AsType[Disconnect](err); is || !strings.Contains(err.Error(), "1000: no luck") {
				t.Errorf("%v: is a disconnect", err)
			}
		}
		for _, err := range []error{wrap(d), wrap(&d)} {
			value, isValue := errors.AsType[Disconnect](err)
			pointer, isPointer := errors.AsType[*Disconnect](err)
			if !isValue || !isPointer || value != d || *pointer != d {
				t.Errorf("%v: %v, %v", err, value, pointer)
			}
			if !errors.Is(err, d) || !errors.Is(err, &Disconnect{Code: 4100}) || errors.Is(err, DisconnectStale) || errors.Is(err, (*Disconnect)(nil)) || errors.Is(err, e) {
				t.Errorf("%v: is another one", err)
			}
			if _, is := errors.AsType[*Error](err); is || !strings.Contains(err.Error(), "disconnect 4100: go away") {
				t.Errorf("%v: is an error", err)
			}
		}
	}
}

func TestEncodingString(t *testing.T) {
	if JSON.String() != "json" || Protobuf.String() != "protobuf" {
		t.Error(JSON, Protobuf)
	}
}
