package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// requests sends the commands of an emulated connection.
type requests struct {
	http          *http.Client
	url           string // of the emulation endpoint
	codec         codec.ClientCodec
	node, session string
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 1 << 20

// send sends commands by one request.
func (s *requests) send(ctx context.Context, cmds []*protocol.Command) error {
	body, err := s.body(cmds)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", contentType(s.codec.Encoding()))
	res, err := s.http.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	if err = errors.Join(err, res.Body.Close()); err == nil && res.StatusCode != http.StatusNoContent {
		err = fmt.Errorf("%s: HTTP status %d", s.url, res.StatusCode)
	}
	return err
}

func contentType(e protocol.Encoding) string {
	if e == protocol.Protobuf {
		return "application/octet-stream"
	}
	return "application/json"
}

// body returns the body of a request.
func (s *requests) body(cmds []*protocol.Command) ([]byte, error) {
	frame, err := appendCommands(nil, s.codec, cmds)
	if err != nil {
		return nil, err
	}
	req := protocol.EmulationRequest{Node: s.node, Session: s.session, Data: frame}
	if s.codec.Encoding() == protocol.Protobuf {
		return req.AppendProto(nil), nil
	}
	req.Data = codec.AppendJSONString(nil, frame)
	return req.AppendJSON(nil)
}
