package refusal_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

// The answer stays what it was, and the reason goes with it through other errors and answers.
func TestReason(t *testing.T) {
	err := refusal.Because(protocol.ErrorPermissionDenied, "a.key", "it is off")
	if !errors.Is(err, protocol.ErrorPermissionDenied) || err.Error() != "103: permission denied: it is off" {
		t.Error(err)
	}
	wrapped := fmt.Errorf("wrapped: %w", err)
	if key, text := refusal.Explain(wrapped); key != "a.key" || text != "it is off" {
		t.Errorf("%q %q", key, text)
	}
	other := refusal.Answer(protocol.DisconnectInvalidToken, wrapped)
	if key, text := refusal.Explain(other); key != "a.key" || text != "it is off" ||
		!errors.Is(other, protocol.DisconnectInvalidToken) || errors.Is(other, protocol.ErrorPermissionDenied) {
		t.Errorf("%q %q %v", key, text, other)
	}
	if key, text := refusal.Explain(protocol.ErrorExpired); key != "" || text != "110: expired" {
		t.Errorf("%q %q", key, text)
	}
}

// A reason may name a user, which the line shows if the caller is nobody, and marks if nobody has verified it.
func TestNamed(t *testing.T) {
	shared := refusal.Because(protocol.ErrorTokenExpired, "", "it is old")
	known := refusal.Named(shared, "ann", true)
	forged := refusal.Named(shared, "x\" y=z\n", false)
	for _, tt := range []struct {
		f    refusal.Refusal
		err  error
		want string
	}{
		{refusal.Refusal{Kind: "k"}, known, `level=INFO msg=k user=ann reason="it is old"`},
		{refusal.Refusal{Kind: "k"}, refusal.Answer(protocol.ErrorExpired, forged), `level=INFO msg=k unverified_user="x\" y=z\n" reason="it is old"`},
		{refusal.Refusal{Kind: "k", User: "bob"}, known, `level=INFO msg=k user=bob reason="it is old"`},
		{refusal.Refusal{Kind: "k", User: "bob"}, forged, `level=INFO msg=k user=bob reason="it is old"`},
		{refusal.Refusal{Kind: "k"}, shared, `level=INFO msg=k reason="it is old"`},
	} {
		if got := report(nil, tt.f, 0, tt.err); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
	if plain := errors.New("plain"); !errors.Is(refusal.Named(plain, "ann", true), plain) || !errors.Is(refusal.Named(shared, "", true), shared) {
		t.Error("an error without a user is another one")
	}
}

func report(observe func(*refusal.Refusal), f refusal.Refusal, code uint32, err error) string {
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	refusal.Reporter{Log: log, Observe: observe}.Report(f, code, err)
	return strings.TrimSpace(b.String())
}

// A line has what is known, and texts of bounded length.
func TestReport(t *testing.T) {
	long := strings.Repeat("x", 255) + "é" + strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		refusal refusal.Refusal
		code    uint32
		err     error
		want    string
	}{
		{refusal.Refusal{Kind: "publish refused", Client: "c", User: "u", Channel: "chat:a"}, 103,
			refusal.Because(protocol.ErrorPermissionDenied, "a.key", "it is off"),
			`level=INFO msg="publish refused" client=c user=u channel=chat:a code=103 reason="it is off" key=a.key`},
		{refusal.Refusal{Kind: "k", Addr: "1.2.3.4:5", Origin: "https://x", Method: "m", Path: "/p", Level: slog.LevelWarn}, 0, errors.New("text"),
			`level=WARN msg=k addr=1.2.3.4:5 origin=https://x method=m path=/p reason=text`},
		{refusal.Refusal{Kind: "k", Channel: long}, 0, errors.New(long),
			`level=INFO msg=k channel=` + long[:255] + ` reason=` + long[:255]},
		{refusal.Refusal{Kind: "k", Level: slog.LevelDebug}, 0, errors.New("text"), ``},
	} {
		if got := report(nil, tt.refusal, tt.code, tt.err); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// The observer is told, whatever the log takes, and can put another key in.
func TestObserver(t *testing.T) {
	told := 0
	observe := func(f *refusal.Refusal) {
		if f.Code != 103 || f.Reason != "it is off" || f.Key != "Config.A" || f.Client != "c" {
			t.Errorf("%+v", f)
		}
		told++
		f.Key = "a.key"
	}
	err := refusal.Because(protocol.ErrorPermissionDenied, "Config.A", "it is off")
	if got := report(observe, refusal.Refusal{Kind: "k", Client: "c"}, 103, err); !strings.HasSuffix(got, "key=a.key") {
		t.Error(got)
	}
	if report(observe, refusal.Refusal{Kind: "k", Client: "c", Level: slog.LevelDebug}, 103, err); told != 2 {
		t.Errorf("told %d times", told)
	}
}

// An attacker who is refused 20,000 times, each time for another channel, leaves few lines,
// which count the others, and little memory.
func TestManyRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no line is due for the time that it takes
		var b bytes.Buffer
		log := logging.Wrap(slog.New(slog.NewTextHandler(&b, nil)))
		r := refusal.Reporter{Log: log}
		err := refusal.Because(protocol.ErrorPermissionDenied, "a.key", "it is off")
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		const many = 20_000
		for i := range many {
			r.Report(refusal.Refusal{Kind: "publish refused", Client: "c", Channel: fmt.Sprintf("chat:%d", i)}, 103, err)
		}
		if err := logging.Flush(log); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if n := strings.Count(b.String(), "\n"); n > 40 || !strings.Contains(b.String(), "suppressed=") || !strings.Contains(b.String(), "within_ms=10000") {
			t.Errorf("%d lines for %d refusals:\n%s", n, many, b.String())
		}
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 256<<10 {
			t.Errorf("%d bytes are kept", grown)
		}
	})
}

// Report has a bounded cost: what is suppressed allocates little.
func TestAllocations(t *testing.T) {
	log := logging.Wrap(slog.New(slog.NewTextHandler(new(bytes.Buffer), nil)))
	r := refusal.Reporter{Log: log}
	err := refusal.Because(protocol.ErrorPermissionDenied, "a.key", "it is off")
	report := func() { r.Report(refusal.Refusal{Kind: "k", Client: "c", User: "u", Channel: "a"}, 103, err) }
	for range 100 {
		report()
	}
	if n := testing.AllocsPerRun(1000, report); n > 8 {
		t.Errorf("%v allocations", n)
	}
}
