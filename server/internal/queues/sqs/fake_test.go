package sqs

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/config"
)

// fake is a server that speaks the JSON protocol of SQS, and AssumeRole of STS.
type fake struct {
	*httptest.Server
	tb testing.TB

	mu      sync.Mutex
	changed chan struct{}
	queues  map[string]*fakeQueue // by URL
	refuse  map[string]string     // codes of errors, by operation
	keys    []string              // access keys that signed requests
	role    string                // that was assumed
	sent    int

	requests int // that are being answered
}

type fakeQueue struct{ messages []*fakeMessage }

type attribute struct{ DataType, StringValue string }

type fakeMessage struct {
	id, body, group string
	attributes      map[string]attribute
	hidden          time.Time // until then
	receipt         string
	deliveries      int
}

func newFake(tb testing.TB) *fake {
	f := &fake{tb: tb, changed: make(chan struct{}), queues: make(map[string]*fakeQueue), refuse: make(map[string]string)}
	f.Server = httptest.NewServer(f)
	tb.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

// queue makes a queue and returns its URL.
func (f *fake) queue(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	url := f.URL + "/123456789012/" + name
	f.queues[url] = new(fakeQueue)
	return url
}

// change does something to the fake, and wakes those who wait for messages.
func (f *fake) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.changed)
	f.changed = make(chan struct{})
}

// add puts a message into a queue.
func (f *fake) add(url, group, body string, attributes map[string]string) {
	m := &fakeMessage{group: group, body: body, attributes: make(map[string]attribute)}
	for k, v := range attributes {
		m.attributes[k] = attribute{"String", v}
	}
	f.change(func() { f.put(url, m) })
}

func (f *fake) put(url string, m *fakeMessage) {
	f.sent++
	m.id = fmt.Sprintf("%08d-0000-0000-0000-000000000000", f.sent)
	f.queues[url].messages = append(f.queues[url].messages, m)
}

// expire ends the visibility timeouts of all messages.
func (f *fake) expire() {
	f.change(func() {
		for _, q := range f.queues {
			for _, m := range q.messages {
				m.hidden = time.Time{}
			}
		}
	})
}

// awaitGone waits until no requests are under way. As with SQS, messages may go to one that has
// just gone.
func (f *fake) awaitGone() {
	f.tb.Helper()
	f.CloseClientConnections()
	wait.Until(f.tb, "end of requests", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.requests == 0
	})
}

// refuses makes an operation fail; an empty code ends that.
func (f *fake) refuses(operation, code string) { f.change(func() { f.refuse[operation] = code }) }

// left returns the messages of a queue.
func (f *fake) left(url string) []fakeMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []fakeMessage
	for _, m := range f.queues[url].messages {
		list = append(list, *m)
	}
	return list
}

func (f *fake) signers() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys
}

// request has the members of all requests.
type request struct {
	QueueUrl, MessageBody, MessageGroupId, MessageDeduplicationId string
	MaxNumberOfMessages, WaitTimeSeconds, VisibilityTimeout       int
	MessageAttributes                                             map[string]attribute
	MessageAttributeNames, MessageSystemAttributeNames            []string
	Entries                                                       []struct{ Id, ReceiptHandle string }
}

type fields map[string]any

// ServeHTTP implements http.Handler.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.change(func() { f.requests++ })
	defer f.change(func() { f.requests-- })
	_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ := strings.Cut(credential, "/")
	operation, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "AmazonSQS.")
	f.mu.Lock()
	f.keys = append(f.keys, key)
	code := f.refuse[operation]
	f.mu.Unlock()
	if !ok {
		f.assumeRole(w, r)
		return
	}
	var in request
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return // the client has gone
	}
	f.mu.Lock()
	_, exists := f.queues[in.QueueUrl]
	f.mu.Unlock()
	if !exists {
		code = "QueueDoesNotExist"
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if code != "" {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(fields{"__type": "com.amazonaws.sqs#" + code, "message": "refused"})
		return
	}
	var out fields
	switch operation {
	case "ReceiveMessage":
		out = f.receive(r.Context(), &in)
	case "DeleteMessageBatch":
		out = f.remove(&in)
	case "SendMessage":
		out = f.send(&in)
	case "GetQueueAttributes":
		out = fields{"Attributes": fields{"ApproximateNumberOfMessages": fmt.Sprint(len(f.left(in.QueueUrl)))}}
	default:
		f.tb.Errorf("unexpected operation %q", operation)
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (f *fake) assumeRole(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("Action") != "AssumeRole" {
		f.tb.Errorf("unexpected request %v", r.Form)
	}
	f.change(func() { f.role = r.FormValue("RoleArn") })
	_, _ = fmt.Fprint(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
		<AccessKeyId>AKIDROLE</AccessKeyId><SecretAccessKey>x</SecretAccessKey><SessionToken>x</SessionToken>
		<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`)
}

// receive waits for messages.
func (f *fake) receive(ctx context.Context, in *request) fields {
	timeout := time.After(time.Duration(in.WaitTimeSeconds) * time.Second)
	for {
		f.mu.Lock()
		changed := f.changed
		var out []fields
		if ctx.Err() == nil {
			out = f.take(in)
		}
		f.mu.Unlock()
		if len(out) > 0 {
			return fields{"Messages": out}
		}
		select {
		case <-changed:
		case <-timeout:
			return fields{}
		case <-ctx.Done():
			return fields{}
		}
	}
}

// take hides messages and returns them. A group of which some messages are hidden gives no others.
func (f *fake) take(in *request) (out []fields) {
	now := time.Now()
	busy := make(map[string]bool)
	for _, m := range f.queues[in.QueueUrl].messages {
		if m.hidden.After(now) && m.group != "" {
			busy[m.group] = true
		}
	}
	for _, m := range f.queues[in.QueueUrl].messages {
		if m.hidden.After(now) || busy[m.group] || len(out) == in.MaxNumberOfMessages {
			continue
		}
		m.hidden, m.deliveries = now.Add(time.Duration(in.VisibilityTimeout)*time.Second), m.deliveries+1
		m.receipt = fmt.Sprint(m.id, "/", m.deliveries)
		system := fields{}
		if m.group != "" && len(in.MessageSystemAttributeNames) > 0 {
			system["MessageGroupId"] = m.group
		}
		sum := md5.Sum([]byte(m.body))
		message := fields{"MessageId": m.id, "ReceiptHandle": m.receipt, "Body": m.body, "MD5OfBody": hex.EncodeToString(sum[:]), "Attributes": system}
		if len(in.MessageAttributeNames) > 0 {
			message["MessageAttributes"] = m.attributes
		}
		out = append(out, message)
	}
	return out
}

func (f *fake) remove(in *request) fields {
	f.mu.Lock()
	defer f.mu.Unlock()
	failed, successful := []fields{}, []fields{}
	q := f.queues[in.QueueUrl]
	for _, e := range in.Entries {
		if f.refuse["entry"] != "" {
			failed = append(failed, fields{"Id": e.Id, "Code": f.refuse["entry"], "SenderFault": true})
			continue
		}
		for i, m := range q.messages {
			if m.receipt == e.ReceiptHandle {
				q.messages = append(q.messages[:i:i], q.messages[i+1:]...)
				break
			}
		}
		successful = append(successful, fields{"Id": e.Id})
	}
	return fields{"Failed": failed, "Successful": successful}
}

func (f *fake) send(in *request) fields {
	if len(in.MessageAttributes) > 10 || in.MessageBody == "" {
		f.tb.Errorf("SQS would refuse %+v", in)
	}
	if strings.HasSuffix(in.QueueUrl, ".fifo") != (in.MessageGroupId != "" && in.MessageDeduplicationId != "") {
		f.tb.Errorf("group %q in %s", in.MessageGroupId, in.QueueUrl)
	}
	m := &fakeMessage{body: in.MessageBody, group: in.MessageGroupId, attributes: in.MessageAttributes}
	f.change(func() { f.put(in.QueueUrl, m) })
	sum := md5.Sum([]byte(in.MessageBody))
	return fields{"MessageId": m.id, "MD5OfMessageBody": hex.EncodeToString(sum[:])}
}

// source returns a source of the fake's queues.
func (f *fake) source(queue string, edit func(*config.Consumer)) *Source {
	f.tb.Helper()
	c := config.Consumer{AWSSQS: config.SQSConsumer{
		Queues: []string{queue}, Region: "eu-central-1", LocalstackEndpoint: f.URL, MaxNumberOfMessages: 10, WaitTime: 20 * time.Second,
		VisibilityTimeout: time.Hour, MaxConcurrency: 1, MethodAttribute: "centrifugo-method",
	}}
	if edit != nil {
		edit(&c)
	}
	s, err := New(&c)
	if err != nil {
		f.tb.Fatal(err)
	}
	return s
}

// publish adds a publication.
func (f *fake) publish(queue, group, ch, data string) {
	f.add(queue, group, fmt.Sprintf(`{"channel":%q,"data":%q}`, ch, data), map[string]string{"centrifugo-method": "publish"})
}
