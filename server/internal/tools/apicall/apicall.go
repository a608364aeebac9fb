// Package apicall calls methods of the server API over HTTP.
package apicall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

const maxAnswer = 256 << 20

// Caller is an endpoint of the API. Several goroutines may use it at a time.
type Caller struct {
	URL  string // of the API, without trailing slash
	Key  string // empty for none
	HTTP *http.Client
}

// Error is the API's answer to a command that failed.
type Error struct {
	Code    uint32 `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return fmt.Sprintf("error %d: %s", e.Code, e.Message) }

// Post sends a request and leaves the body of the answer, whose status was 200, in answer. When ctx ends, the error is
// its cause.
func (c *Caller) Post(ctx context.Context, method string, body []byte, answer *bytes.Buffer) error {
	res, err := c.Open(ctx, method, body)
	if err != nil {
		return err
	}
	defer res.Close()
	answer.Reset()
	_, err = answer.ReadFrom(io.LimitReader(res, maxAnswer))
	return err
}

// Open is Post for an answer that is read as it comes; the end of ctx ends the body. After another status the error has
// the first line of the text.
func (c *Caller) Open(ctx context.Context, method string, body []byte) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/"+method, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.Key != "" {
		req.Header.Set("X-API-Key", c.Key)
	}
	res, err := c.HTTP.Do(req)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case res.StatusCode == http.StatusOK:
		return res.Body, nil
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusUnauthorized:
		return nil, fmt.Errorf("%s: HTTP status 401: the API key (--api-key) is missing or wrong", req.URL)
	case http.StatusNotFound:
		return nil, fmt.Errorf("%s: HTTP status 404: is this the address of the API (--api)?", req.URL)
	case http.StatusRequestEntityTooLarge:
		return nil, fmt.Errorf("%s: HTTP status 413: %d bytes are too much for the server in one request", req.URL, len(body))
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	if line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n"); line != "" && res.StatusCode >= 400 {
		return nil, fmt.Errorf("%s: HTTP status %d: %s", req.URL, res.StatusCode, line)
	}
	return nil, fmt.Errorf("%s: HTTP status %d", req.URL, res.StatusCode)
}

// Call calls a method; request and result are JSON. An error of the API wraps an *Error.
func (c *Caller) Call(ctx context.Context, method string, request, result any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := c.Post(ctx, method, body, &text); err != nil {
		return err
	}
	var answer struct {
		Error  *Error          `json:"error"`
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(text.Bytes(), &answer); err != nil {
		return fmt.Errorf("%s/%s: the answer is not JSON: %w", c.URL, method, err)
	}
	switch {
	case answer.Error != nil:
		return fmt.Errorf("%s: %w", method, answer.Error)
	case answer.Result == nil:
		return fmt.Errorf("%s/%s: %w", c.URL, method, errNoResult)
	}
	return json.Unmarshal(answer.Result, result)
}

var errNoResult = errors.New("the answer has no result")
