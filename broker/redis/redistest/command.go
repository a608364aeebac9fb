//go:build unix

package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

// Do sends one command, and returns the elements of an array one per line. An error reply fails the test.
func (s *Server) Do(args ...string) string {
	s.tb.Helper()
	reply, err := s.try(args...)
	if err != nil {
		s.tb.Fatalf("redistest: %s at %s: %v", args[0], s.Addr(), err)
	}
	return reply
}

func (s *Server) try(args ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.plain)), wait.Limit)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(wait.Limit)); err != nil {
		return "", err
	}
	reader := bufio.NewReader(conn)
	if s.password != "" {
		if _, err := roundTrip(conn, reader, "AUTH", s.password); err != nil {
			return "", err
		}
	}
	return roundTrip(conn, reader, args...)
}

func roundTrip(conn net.Conn, reader *bufio.Reader, args ...string) (string, error) {
	request := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := conn.Write(request); err != nil {
		return "", err
	}
	return readReply(reader)
}

func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, rest := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", errors.New(rest)
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < 0 {
		return "", err
	}
	if kind == '$' {
		text := make([]byte, n+2)
		_, err := io.ReadFull(r, text)
		return string(text[:n]), err
	}
	var lines []string
	for range n {
		line, err := readReply(r)
		if err != nil {
			return "", err
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), nil
}
