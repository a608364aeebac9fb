// Package resp asks Redis servers.
package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Do gives a server a command, over a connection of its own, and returns its answer: one text, or those of a flat list.
func Do(address string, command ...string) ([]string, error) {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	text := fmt.Appendf(nil, "*%d\r\n", len(command))
	for _, word := range command {
		text = fmt.Appendf(text, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := conn.Write(text); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	kind, first, err := answer(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", address, command[0], err)
	}
	if kind != '*' {
		return []string{first}, nil
	}
	size, err := strconv.Atoi(first)
	list := make([]string, max(0, size))
	for i := range list {
		if _, list[i], err = answer(r); err != nil {
			return nil, err
		}
	}
	return list, err
}

// answer reads a part of an answer: a text or a number; of a list its size.
func answer(r *bufio.Reader) (kind byte, text string, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, "", err
	}
	kind, text = line[0], strings.TrimSpace(line[1:])
	switch kind {
	case '-':
		return kind, "", errors.New(text)
	case '$':
		size, err := strconv.Atoi(text)
		if err != nil || size < 0 {
			return kind, "", err
		}
		data := make([]byte, size+2)
		_, err = io.ReadFull(r, data)
		return kind, string(data[:size]), err
	}
	return kind, text, nil
}
