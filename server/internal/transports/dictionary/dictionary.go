// Package dictionary trains and loads the dictionaries for the compression of messages to WebSocket clients.
package dictionary

import (
	"errors"
	"fmt"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/config/material"
	"github.com/gyrohq/gyro/transport/websocket"
)

// Load reads the files of dictionaries. The errors name the keys.
func Load(list []config.Dictionary) (loaded []*websocket.Dictionary, err error) {
	var errs []error
	type purpose struct{ profile, encoding string }
	names, uses := make(map[string]bool), make(map[purpose]bool)
	for i, c := range list {
		key := config.Element("websocket.dictionaries", i, c.Name)
		d, err := load(c)
		of := purpose{c.Profile, c.Encoding}
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s.%w", key, err))
		case names[c.Name]:
			errs = append(errs, fmt.Errorf("%s.name: %q is given twice", key, c.Name))
		case uses[of]:
			errs = append(errs, fmt.Errorf("%s.profile: there is another dictionary for %s and the profile %q", key, c.Encoding, c.Profile))
		}
		names[c.Name], uses[of] = true, true
		loaded = append(loaded, d)
	}
	return loaded, errors.Join(errs...)
}

func load(c config.Dictionary) (*websocket.Dictionary, error) {
	switch {
	case c.Name == "":
		return nil, errors.New("name: is required")
	case c.Encoding == "":
		return nil, errors.New("encoding: is required: json or protobuf")
	case c.File == "":
		return nil, errors.New("file: is required; gyro dict train makes one")
	}
	data, err := material.ReadFile(c.File)
	if err != nil {
		return nil, fmt.Errorf("file: %w", err)
	}
	e := protocol.JSON
	if c.Encoding == "protobuf" {
		e = protocol.Protobuf
	}
	d, err := websocket.NewDictionary(e, c.Profile, c.AllowAnonymous, data)
	if err != nil {
		return nil, fmt.Errorf("file: %s has %d bytes, and a dictionary 1 to %d", c.File, len(data), websocket.MaxDictionary)
	}
	return d, nil
}
