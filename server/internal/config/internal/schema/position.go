package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Position in a file, counted from 1.
type Position struct{ Line, Column int }

// Positions of the keys of a file by path, as in Report.Keys.
type Positions map[string]Position

// FindPositions returns the positions of all keys of a file that ParseFile accepts.
func FindPositions(format string, data []byte) (Positions, error) {
	at := Positions{}
	switch format {
	case "json":
		j := jsonWalker{data: data, dec: json.NewDecoder(bytes.NewReader(data)), at: at}
		j.dec.UseNumber()
		return at, j.value("")
	case "yaml":
		file, err := parser.ParseBytes(data, 0)
		if err != nil {
			return nil, fmt.Errorf("not valid YAML: %w", err)
		}
		for _, doc := range file.Docs[:min(len(file.Docs), 1)] {
			at.yaml("", doc.Body)
		}
		return at, nil
	case "toml":
		return at, at.toml(data)
	}
	return nil, fmt.Errorf("unknown format %q", Clip(format))
}

// Find returns the position of a path, or of the nearest section or list around it, with that path.
func (at Positions) Find(key string) (Position, string) {
	for key != "" {
		if p, ok := at[key]; ok {
			return p, key
		}
		key = parent(key)
	}
	return Position{}, ""
}

func parent(key string) string { return key[:max(strings.LastIndexByte(key, '.'), 0)] }

var elementPattern = regexp.MustCompile(`\[([0-9]+)\](\([^)]*\))?`)

// FilePath converts a key in messages to a path: channel.namespaces[0](chat).presence to
// channel.namespaces.[0].presence.
func FilePath(key string) string { return elementPattern.ReplaceAllString(key, ".[$1]") }

// add records a position, once: a section may be continued elsewhere.
func (at Positions) add(path, key string, line, column int) string {
	key = strings.ToLower(key)
	if path != "" {
		key = path + "." + key
	}
	if _, seen := at[key]; !seen {
		at[key] = Position{line, column}
	}
	return key
}

func (at Positions) item(path string, i, line, column int) string {
	return at.add(path, fmt.Sprintf("[%d]", i), line, column)
}

type jsonWalker struct {
	data []byte
	dec  *json.Decoder
	at   Positions

	seen, begin, line int // the data up to seen have line lines; the last line begins at begin
}

func (j *jsonWalker) next() (line, column int) {
	i := int(j.dec.InputOffset())
	for i < len(j.data) && strings.IndexByte(" \t\r\n,:", j.data[i]) >= 0 {
		i++
	}
	for ; j.seen < i; j.seen++ {
		if j.data[j.seen] == '\n' {
			j.begin, j.line = j.seen+1, j.line+1
		}
	}
	return 1 + j.line, 1 + i - j.begin
}

func (j *jsonWalker) value(path string) error {
	tok, err := j.dec.Token()
	if err != nil {
		return err
	}
	open, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	for i := 0; j.dec.More(); i++ {
		line, column := j.next()
		var below string
		if open == '{' {
			tok, err := j.dec.Token()
			if err != nil {
				return err
			}
			below = j.at.add(path, tok.(string), line, column)
		} else {
			below = j.at.item(path, i, line, column)
		}
		if err := j.value(below); err != nil {
			return err
		}
	}
	_, err = j.dec.Token()
	return err
}

func (at Positions) yaml(path string, n ast.Node) {
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			at.yaml(path, v)
		}
	case *ast.MappingValueNode:
		key := n.Key.GetToken()
		at.yaml(at.add(path, key.Value, key.Position.Line, key.Position.Column), n.Value)
	case *ast.SequenceNode:
		for i, v := range n.Values {
			pos := v.GetToken().Position
			at.yaml(at.item(path, i, pos.Line, pos.Column), v)
		}
	case *ast.AnchorNode:
		at.yaml(path, n.Value)
	case *ast.TagNode:
		at.yaml(path, n.Value)
	}
}

func (at Positions) toml(data []byte) error {
	p := &unstable.Parser{}
	p.Reset(data)
	elements := map[string]int{} // of arrays of tables
	section := ""
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.KeyValue:
			at.tomlValue(p, at.tomlKey(p, section, e.Key(), elements), e.Value(), elements)
		case unstable.Table:
			section = at.tomlKey(p, "", e.Key(), elements)
		case unstable.ArrayTable:
			list := at.tomlKey(p, "", e.Key(), nil)
			elements[list]++
			section = at.item(list, elements[list]-1, at[list].Line, at[list].Column)
			if last := tomlLast(p, e.Key()); last != (Position{}) {
				at[section] = last
			}
		}
	}
	return p.Error()
}

// tomlKey adds a dotted key. In an array of tables it is in the last element.
func (at Positions) tomlKey(p *unstable.Parser, path string, parts unstable.Iterator, elements map[string]int) string {
	for parts.Next() {
		pos := p.Shape(parts.Node().Raw).Start
		path = at.add(path, string(parts.Node().Data), pos.Line, pos.Column)
		if n := elements[path]; n > 0 {
			path = at.item(path, n-1, pos.Line, pos.Column)
		}
	}
	return path
}

func tomlLast(p *unstable.Parser, parts unstable.Iterator) (last Position) {
	for parts.Next() {
		pos := p.Shape(parts.Node().Raw).Start
		last = Position{pos.Line, pos.Column}
	}
	return last
}

func (at Positions) tomlValue(p *unstable.Parser, path string, v *unstable.Node, elements map[string]int) {
	switch v.Kind {
	case unstable.InlineTable:
		for it := v.Children(); it.Next(); {
			at.tomlValue(p, at.tomlKey(p, path, it.Node().Key(), elements), it.Node().Value(), elements)
		}
	case unstable.Array:
		i := 0
		for it := v.Children(); it.Next(); i++ {
			pos := at[path]
			at.tomlValue(p, at.item(path, i, pos.Line, pos.Column), it.Node(), elements)
		}
	}
}
