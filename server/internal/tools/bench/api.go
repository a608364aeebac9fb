package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/server/internal/tools/apicall"
)

// apiSender publishes over the HTTP API, one request at a time: a batch if several publications may be in flight.
type apiSender struct {
	p        *producer
	api      *apicall.Caller
	channels []byte // JSON list, for broadcasts
	body     []byte
	answer   bytes.Buffer
}

func (p *producer) overAPI() {
	t := p.run.target
	s := &apiSender{p: p, api: &apicall.Caller{URL: t.API, Key: t.APIKey, HTTP: &http.Client{Transport: &http.Transport{
		TLSClientConfig: t.TLS, MaxIdleConnsPerHost: 1, DisableCompression: true,
	}}}}
	if p.broadcast {
		s.channels = append(s.channels, '[')
		for i, name := range p.run.channels {
			if i > 0 {
				s.channels = append(s.channels, ',')
			}
			s.channels = codec.AppendJSONString(s.channels, []byte(name))
		}
		s.channels = append(s.channels, ']')
	}
	p.sender = s
}

func (s *apiSender) room(ctx context.Context, limit int) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return limit, nil
}

func (s *apiSender) send(ctx context.Context, items []item) error {
	var method string
	b := s.body[:0]
	switch {
	case s.p.broadcast:
		method = "broadcast"
		b = append(append(b, `{"channels":`...), s.channels...)
		b = append(append(append(b, `,"data":`...), items[0].payload...), '}')
	case len(items) == 1:
		method = items[0].method()
		b = appendPublish(b, items[0])
	default:
		method = "batch"
		b = append(b, `{"commands":[`...)
		for i, it := range items {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(append(b, `{"`...), it.method()...), `":`...)
			b = append(appendPublish(b, it), '}')
		}
		b = append(b, `]}`...)
	}
	s.body = b
	start := time.Now()
	if err := s.api.Post(ctx, method, b, &s.answer); err != nil {
		return err
	}
	took := time.Since(start)
	if err := s.check(method, len(items)); err != nil {
		return fmt.Errorf("%s/%s: %w", s.p.run.target.API, method, err)
	}
	s.p.done(len(items), took)
	return nil
}

func (it item) method() string {
	if it.key != "" {
		return "map_publish"
	}
	return "publish"
}

func appendPublish(b []byte, it item) []byte {
	b = codec.AppendJSONString(append(b, `{"channel":`...), []byte(it.channel))
	if it.key != "" {
		b = codec.AppendJSONString(append(b, `,"key":`...), []byte(it.key))
	}
	b = append(append(b, `,"data":`...), it.payload...)
	return append(b, '}')
}

func (s *apiSender) check(method string, n int) error {
	var answer struct {
		Error  *apicall.Error `json:"error"`
		Result *struct {
			Responses []struct {
				Error *apicall.Error `json:"error"`
			} `json:"responses"`
		} `json:"result"`
		Replies []struct {
			Error *apicall.Error `json:"error"`
		} `json:"replies"`
	}
	if err := json.Unmarshal(s.answer.Bytes(), &answer); err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}
	if answer.Error != nil {
		return answer.Error
	}
	answers, errs := n, 0
	var first *apicall.Error
	count := func(e *apicall.Error) {
		if e != nil {
			if errs++; first == nil {
				first = e
			}
		}
	}
	switch {
	case method == "batch":
		answers = len(answer.Replies)
		for _, r := range answer.Replies {
			count(r.Error)
		}
	case answer.Result == nil:
		return errors.New("the answer has no result")
	case method == "broadcast":
		n, answers = len(s.p.run.channels), len(answer.Result.Responses)
		for _, r := range answer.Result.Responses {
			count(r.Error)
		}
	}
	if first != nil {
		return fmt.Errorf("%d of %d publications: %w", errs, n, first)
	}
	if answers != n {
		return fmt.Errorf("%d answers to %d publications", answers, n)
	}
	return nil
}

func (s *apiSender) flush(context.Context) error { return nil }
