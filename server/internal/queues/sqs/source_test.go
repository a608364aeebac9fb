package sqs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/queues/queuetest"
)

// TestMain gives the tests an environment of AWS of their own.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "aws")
	if err != nil {
		panic(err)
	}
	file := filepath.Join(dir, "credentials")
	profile := "[other]\naws_access_key_id = AKIDPROFILE\naws_secret_access_key = x\n"
	err = os.WriteFile(file, []byte(profile), 0o600)
	for key, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIDENV", "AWS_SECRET_ACCESS_KEY": "x", "AWS_SHARED_CREDENTIALS_FILE": file,
		"AWS_CONFIG_FILE": filepath.Join(dir, "config"), "AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "", "AWS_DEFAULT_REGION": "",
	} {
		err = errors.Join(err, os.Setenv(key, value))
	}
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// TestConsume: messages are executed and deleted; another source goes on where the first stopped.
func TestConsume(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	q := f.queue("events")
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	var want []string
	for round := range 2 {
		for i := range 25 {
			f.publish(q, "", fmt.Sprint("ch", i%3), fmt.Sprintf("%d-%02d", round, i))
			want = append(want, fmt.Sprintf(`ch%d "%d-%02d"`, i%3, round, i))
		}
		stop := queuetest.Start(t, f.source(q, nil), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
		if got := node.Await(t, len(want)); !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
		wait.Until(t, "lag", func() bool { return meter.LagOf("events") >= 0 })
		stop()
		f.awaitGone()
		if left := f.left(q); len(left) > 0 {
			t.Errorf("not deleted: %+v", left)
		}
	}
	if processed, failed, gaveUp := meter.Counts(); processed != 50 || failed != 0 || gaveUp != 0 {
		t.Errorf("processed %d, failed %d, gave up %d", processed, failed, gaveUp)
	}
}

// TestDataMode: the body is the data, and attributes are options.
func TestDataMode(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	q := f.queue("events")
	f.add(q, "", "x", map[string]string{"channels": "a,b", "key": "k", "t-color": "red"})
	node := queuetest.NewNode()
	queuetest.Start(t, f.source(q, nil), queuetest.Config(node, func(c *queues.Config) {
		c.Mode = &config.PublicationDataMode{Enabled: true, Channels: "channels", IdempotencyKey: "key", TagsPrefix: "t-"}
	}))
	if got := node.Await(t, 2); !slices.Equal(got, []string{"a x", "b x"}) {
		t.Errorf("got %q", got)
	}
	if o := node.Options()[0]; o.IdempotencyKey != "k" || o.Tags["color"] != "red" {
		t.Errorf("got %+v", o)
	}
}

// TestSNS: the payload is the Message of a notification, and attributes are those of the message of
// SQS. What is no notification is deleted, and kept as a dead letter.
func TestSNS(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	q, dead := f.queue("events"), f.queue("dead.fifo")
	method := map[string]string{"centrifugo-method": "publish"}
	f.add(q, "", `{"Type":"Notification","Message":"{\"channel\":\"a\",\"data\":1}"}`, method)
	f.add(q, "", `{"Type":"Notification","Message":"{\"method\":\"publish\",\"payload\":{\"channel\":\"a\",\"data\":2}}",
		"MessageAttributes":{"centrifugo-method":{"Type":"String","Value":"info"}}}`, nil)
	f.add(q, "", `{"channel":"a","data":3}`, method)
	f.add(q, "", `no JSON`, method)
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	s := f.source(q, func(c *config.Consumer) { c.AWSSQS.SNSEnvelope, c.DeadLetter = true, dead })
	stop := queuetest.Start(t, s, queuetest.Config(node, func(c *queues.Config) { c.Meter, c.DeadLetter = meter, s.KeepDeadLetter }))
	wait.Until(t, "deletion", func() bool { return len(f.left(q)) == 0 })
	stop()
	if got := node.Got(); !slices.Equal(got, []string{"a 1", "a 2"}) {
		t.Errorf("got %q", got)
	}
	letters := f.left(dead)
	if len(letters) != 2 || letters[0].body != `{"channel":"a","data":3}` || letters[1].body != "no JSON" ||
		!strings.Contains(letters[0].attributes["gyro-reason"].StringValue, "no notification of SNS") {
		t.Errorf("dead letters %+v", letters)
	}
	if processed, _, gaveUp := meter.Counts(); processed != 4 || gaveUp != 2 {
		t.Errorf("processed %d, gave up %d", processed, gaveUp)
	}
}

// TestRetry: a message that fails is tried four times, then left until it is visible again, while
// others are executed.
func TestRetry(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	q := f.queue("events")
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	node.Fails = func(ch string, _ []byte) bool { return ch == "bad" }
	f.publish(q, "", "bad", "1")
	f.publish(q, "", "good", "2")
	queuetest.Start(t, f.source(q, nil), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
	wait.Until(t, "deletion", func() bool { return len(f.left(q)) == 1 })
	if _, failed, _ := meter.Counts(); failed != 1+retries {
		t.Errorf("failed %d times", failed)
	}
	node.SetFails(nil)
	f.expire()
	if got := node.Await(t, 2); !slices.Equal(got, []string{`good "2"`, `bad "1"`}) {
		t.Errorf("got %q", got)
	}
	wait.Until(t, "deletion", func() bool { return len(f.left(q)) == 0 })
}

// TestGroups: messages of a group are executed in their order. When one fails, those behind it wait, and
// other groups go on.
func TestGroups(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{1, 3} {
		f := newFake(t)
		q := f.queue("events.fifo")
		node := queuetest.NewNode()
		node.Fails = func(_ string, data []byte) bool { return string(data) == `"bad-1"` }
		var want []string
		for i := range 3 {
			for _, group := range []string{"a", "bad", "c"} {
				f.publish(q, group, fmt.Sprint("ch", i), fmt.Sprint(group, "-", i))
				want = append(want, fmt.Sprintf(`ch%d "%s-%d"`, i, group, i))
			}
		}
		queuetest.Start(t, f.source(q, func(c *config.Consumer) { c.AWSSQS.MaxConcurrency = concurrency }), queuetest.Config(node, nil))
		wait.Until(t, "deletion", func() bool { return len(f.left(q)) == 2 })
		if got := node.Got(); len(got) != 7 || slices.Contains(got, `ch2 "bad-2"`) {
			t.Errorf("got %q", got)
		}
		node.SetFails(nil)
		f.expire()
		got := slices.Clone(node.Await(t, 9))
		for _, group := range []string{"a", "bad", "c"} {
			var of []string
			for _, g := range got {
				if strings.Contains(g, group+"-") {
					of = append(of, g)
				}
			}
			if !slices.IsSortedFunc(of, strings.Compare) {
				t.Errorf("got %q", of)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
	}
}

// TestPoison: a message that fails for too long goes to the queue of dead letters, also if it is all
// that there is in its group.
func TestPoison(t *testing.T) {
	t.Parallel()
	for group, name := range map[string]string{"": "dead", "g": "dead.fifo"} {
		f := newFake(t)
		q, dead := f.queue("events"), f.queue(name)
		node := queuetest.NewNode()
		node.Fails = func(ch string, _ []byte) bool { return ch == "bad" }
		attributes := map[string]string{"centrifugo-method": "publish"}
		for i := range 9 {
			attributes[fmt.Sprint("a", i)] = "x"
		}
		f.add(q, group, `{"channel":"bad","data":"1"}`, attributes)
		s := f.source(q, func(c *config.Consumer) { c.DeadLetter = dead })
		queuetest.Start(t, s, queuetest.Config(node, func(c *queues.Config) { c.RetryTime, c.DeadLetter = time.Millisecond, s.KeepDeadLetter }))
		wait.Until(t, "dead letter", func() bool {
			if group == "" {
				f.publish(q, "", "good", "2") // or nothing would tell that the message is the reason
			}
			f.expire()
			return len(f.left(dead)) > 0
		})
		wait.Until(t, "deletion", func() bool { return len(f.left(q)) == 0 })
		letter := f.left(dead)[0]
		if letter.body != `{"channel":"bad","data":"1"}` || !strings.HasPrefix(letter.attributes["gyro-message"].StringValue, "events/0000") ||
			!strings.HasPrefix(letter.attributes["gyro-reason"].StringValue, "publish: 100") || len(letter.attributes) != 10 {
			t.Errorf("got %+v", letter)
		}
	}
}

// TestDeleteFails: a message that cannot be deleted is executed again.
func TestDeleteFails(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"DeleteMessageBatch", "entry"} {
		f := newFake(t)
		q := f.queue("events")
		f.refuses(what, "AccessDenied")
		f.publish(q, "", "a", "1")
		node, meter := queuetest.NewNode(), new(queuetest.Meter)
		queuetest.Start(t, f.source(q, nil), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
		wait.Until(t, "error", func() bool { _, failed, _ := meter.Counts(); return failed == 1 })
		f.refuses(what, "")
		f.expire()
		node.Await(t, 2)
		wait.Until(t, "deletion", func() bool { return len(f.left(q)) == 0 })
	}
}

// TestOutage: the source goes on when the queue is there again. Nothing has to be there at the start.
func TestOutage(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	q := f.queue("events")
	f.refuses("ReceiveMessage", "AccessDenied")
	f.refuses("GetQueueAttributes", "AccessDenied")
	f.publish(q, "", "a", "1")
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	queuetest.Start(t, f.source(q, nil), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
	wait.Until(t, "error", func() bool { _, failed, _ := meter.Counts(); return failed > 0 })
	f.refuses("ReceiveMessage", "")
	node.Await(t, 1)
	if meter.LagOf("events") != -1 {
		t.Error("lag was measured")
	}
}

// TestStopWhileBusy: messages that a source stopped with go to the next one, each exactly once.
func TestStopWhileBusy(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	q := f.queue("events")
	node := queuetest.NewNode()
	first := queuetest.Start(t, f.source(q, func(c *config.Consumer) { c.AWSSQS.MaxConcurrency = 4 }), queuetest.Config(node, nil))
	var want []string
	for i := range 300 {
		if f.publish(q, "", "a", fmt.Sprint(i)); i == 100 {
			go first()
		}
		want = append(want, fmt.Sprintf(`a "%d"`, i))
	}
	first()
	f.awaitGone()
	f.expire()
	queuetest.Start(t, f.source(q, nil), queuetest.Config(node, nil))
	got := slices.Clone(node.Await(t, len(want)))
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %d messages %q", len(got), got)
	}
}

// TestCredentials: requests are signed with those of the environment, of a profile, or of a role.
func TestCredentials(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:iam::123456789012:role/gyro"
	for want, edit := range map[string]func(*config.Consumer){
		"AKIDENV":     func(*config.Consumer) {},
		"AKIDPROFILE": func(c *config.Consumer) { c.AWSSQS.CredentialsProfile = "other" },
		"AKIDROLE":    func(c *config.Consumer) { c.AWSSQS.AssumeRoleARN = arn },
	} {
		f := newFake(t)
		q := f.queue("events")
		f.publish(q, "", "a", "1")
		node := queuetest.NewNode()
		queuetest.Start(t, f.source(q, edit), queuetest.Config(node, nil))
		node.Await(t, 1)
		if keys := f.signers(); !slices.Contains(keys, want) {
			t.Errorf("%s: signed by %q", want, keys)
		}
		if want == "AKIDROLE" && f.role != arn {
			t.Errorf("assumed %q", f.role)
		}
	}
}

// TestStart: what is wrong is told at the start.
func TestStart(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	for want, edit := range map[string]func(*config.Consumer){
		"region":  func(c *config.Consumer) { c.AWSSQS.Region = "" },
		"missing": func(c *config.Consumer) { c.AWSSQS.CredentialsProfile = "missing" },
	} {
		if err := f.source("x", edit).Connect(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for d, want := range map[time.Duration]int32{0: 1, time.Millisecond: 1, 1900 * time.Millisecond: 1, 20 * time.Second: 20} {
		if got := seconds(d); got != want {
			t.Errorf("%v: %d seconds", d, got)
		}
	}
}

// TestProbe: it finds the queue, or what keeps the source from it, and receives nothing.
func TestProbe(t *testing.T) {
	f := newFake(t)
	url := f.queue("events")
	f.publish(url, "", "ch", "1")
	for code, want := range map[string]string{"": "", "AccessDenied": "", "QueueDoesNotExist": "queues: queue " + url, "InvalidClientTokenId": "queues: queue "} {
		f.change(func() { delete(f.refuse, "GetQueueAttributes") })
		if code != "" {
			f.refuses("GetQueueAttributes", code)
		}
		if err := f.source(url, nil).Probe(t.Context()); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", code, err, want)
		}
	}
	if left := f.left(url); len(left) != 1 {
		t.Errorf("%d messages are left", len(left))
	}
}
