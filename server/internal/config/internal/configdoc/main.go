// Command configdoc writes the reference of the configuration into a folder: docs/configuration.md with head.md and a
// list of sections, and a page in docs/configuration for each group of them.
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gyrohq/gyro/server/internal/config"
)

//go:embed head.md
var head string

type group struct {
	name, title, intro string
	sections           []string
}

// otherKeys is the section of keys without a section.
const otherKeys = "Other keys"

var groups = []group{
	{"server", "Server", "Listeners, the log, the node, its shutdown.", []string{"http_server", "log", "node", "shutdown", "usage_stats", otherKeys}},
	{"clients", "Clients", "Tokens, origins, pings, limits of connections.", []string{"client"}},
	{"channels", "Channels", "Namespaces and their options; calls of clients.", []string{"channel", "rpc", "shared_poll", "user_status"}},
	{"backend", "Backend", "Calls to your backend, the server API, and queues.", []string{"proxies", "http_api", "grpc_api", "consumers"}},
	{"engines", "Engines", "Memory, Redis, NATS and PostgreSQL.", []string{
		"engine", "broker", "presence_manager", "brokers", "presence_managers", "map_broker", "map_brokers", "controller",
	}},
	{"transports", "Transports", "The ways by which clients connect.", []string{
		"websocket", "sse", "http_stream", "emulation", "webtransport", "uni_websocket", "uni_sse", "uni_http_stream", "uni_poll", "uni_grpc", "sockjs", "init",
	}},
	{"operation", "Operation", "Interfaces for operators, metrics and traces.", []string{
		"admin", "prometheus", "health", "swagger", "debug", "flight_recorder", "opentelemetry", "graphite",
	}},
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: configdoc FOLDER")
	}
	if err := write(os.Args[1]); err != nil {
		log.Fatal("configdoc: ", err)
	}
}

func write(folder string) error {
	var reference bytes.Buffer
	if err := config.WriteMarkdown(&reference, "", 2); err != nil {
		return err
	}
	pages, err := split(reference.String())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(folder, "configuration"), 0o755); err != nil {
		return err
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(page), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// split returns the pages by name. Each section must be in one group.
func split(reference string) (map[string]string, error) {
	sections := make(map[string]string)
	for _, text := range strings.Split("\n"+reference, "\n## ")[1:] {
		name, _, _ := strings.Cut(text, "\n")
		sections[name] = text
	}
	pages := make(map[string]string)
	index := strings.TrimRight(head, "\n") + "\n"
	for _, g := range groups {
		index += fmt.Sprintf("\n## %s\n\n%s\n", g.title, g.intro)
		page := fmt.Sprintf("%s\n# Configuration: %s\n\n%s [Configuration](../configuration.md) has the rules for all keys, and the other sections.\n",
			head[:strings.Index(head, "\n")+1], strings.ToLower(g.title), g.intro)
		for _, name := range g.sections {
			text, ok := sections[name]
			if !ok {
				return nil, fmt.Errorf("there is no section %s", name)
			}
			delete(sections, name)
			page += "\n## " + strings.TrimRight(text, "\n") + "\n"
			anchor := strings.ToLower(strings.ReplaceAll(name, " ", "-"))
			index += fmt.Sprintf("\n### %s\n\n%s[Keys](configuration/%s.md#%s)\n", name, introOf(text), g.name, anchor)
		}
		pages["configuration/"+g.name+".md"] = page
	}
	if len(sections) > 0 {
		var left []string
		for name := range sections {
			left = append(left, name)
		}
		slices.Sort(left)
		return nil, fmt.Errorf("sections of no group: %s", strings.Join(left, ", "))
	}
	pages["configuration.md"] = index
	return pages, nil
}

// introOf returns the text between heading and table, with a space behind it.
func introOf(section string) string {
	_, text, _ := strings.Cut(section, "\n")
	text, _, _ = strings.Cut(text, "\n| ")
	if text = strings.TrimSpace(text); text != "" {
		text += " "
	}
	return text
}
