package dev

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"mime"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/config"
)

//go:embed page.html style.css client.js transports.js chat.js
var files embed.FS

var pageTemplate = template.Must(template.ParseFS(files, "page.html"))

const maxUser = 64

// Pages returns the handlers of the demo page, by path. The page shows the secret and the API key of the server, so
// serve it to this machine only (Local).
func Pages(cfg *config.Config) map[string]http.Handler {
	p := &pages{cfg: cfg}
	handlers := map[string]http.Handler{
		"/":            only(http.MethodGet, p.page),
		"/dev/token":   only(http.MethodPost, p.token),
		"/dev/publish": only(http.MethodPost, p.publish),
	}
	for _, name := range []string{"style.css", "client.js", "transports.js", "chat.js"} {
		handlers["/dev/"+name] = only(http.MethodGet, file(name))
	}
	// Pages of other sites could send requests, although they could not read the answers.
	protect := http.NewCrossOriginProtection()
	for path, h := range handlers {
		handlers[path] = protect.Handler(h)
	}
	return handlers
}

type pages struct{ cfg *config.Config }

func only(method string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		if r.Method != method && (r.Method != http.MethodHead || method != http.MethodGet) {
			header.Set("Allow", method)
			http.Error(w, "this path is for "+method, http.StatusMethodNotAllowed)
			return
		}
		h(w, r)
	}
}

func file(name string) http.HandlerFunc {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	kind := mime.TypeByExtension(path.Ext(name))
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(data) // the client may go away
	}
}

// page is the same for all users; each tab gets its user and token from /dev/token.
func (p *pages) page(w http.ResponseWriter, r *http.Request) {
	snippets, err := Snippets(p.cfg, r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	// Not all browsers take ws: for the page's own origin.
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "+
		"connect-src 'self' ws://"+r.Host+"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	_ = pageTemplate.Execute(w, snippets) // the client may go away
}

func (p *pages) token(w http.ResponseWriter, r *http.Request) {
	var who struct {
		User string `json:"user"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1024)).Decode(&who)
	if err != nil && !errors.Is(err, io.EOF) || !printable(who.User, maxUser) {
		http.Error(w, fmt.Sprintf(`expected: {"user":"NAME"} with up to %d bytes of printable text, or no body for a name that is made up`, maxUser), http.StatusBadRequest)
		return
	}
	if who.User == "" {
		who.User = User()
	}
	token, err := sign(p.cfg, who.User)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer, err := json.Marshal(map[string]string{"user": who.User, "token": token})
	if err != nil {
		panic(err) // texts only
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the client may go away
}

func sign(cfg *config.Config, user string) (string, error) {
	return auth.Sign(cfg.Client.Token, auth.Claims{User: user, TTL: TokenTTL}, time.Now())
}

// publish sends the request of the page's curl line, so that the page needs no API key.
func (p *pages) publish(w http.ResponseWriter, r *http.Request) {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		http.Error(w, "the address of the server is unknown", http.StatusInternalServerError)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr.String()+"/api/publish", strings.NewReader(publishBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	q.Header.Set("X-Api-Key", p.cfg.HTTPAPI.Key)
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body) // either side may go away
}

// SnippetUser is the user of the tokens in snippets.
const SnippetUser = "anna"

const publishBody = `{"channel":"` + Channel + `","data":{"text":"Hello from the backend"}}`

// Examples are code to copy. Each works unchanged with the server that shows it.
type Examples struct {
	Channel string
	Client  string // the code of the page that connects
	Curl    string
	Watch   string
	Python  string
	Node    string
	SDK     string
	APIKey  string
	Secret  string
	Docs    string // where the documentation is
	Admin   string // the path of the admin interface
}

const docs = "https://github.com/gyrohq/gyro/blob/main/docs/README.md"

// Snippets returns the examples for a server at host, which may have a port.
func Snippets(cfg *config.Config, host string) (*Examples, error) {
	client, err := files.ReadFile("client.js")
	if err != nil {
		return nil, err
	}
	transports, err := files.ReadFile("transports.js")
	if err != nil {
		return nil, err
	}
	token, err := sign(cfg, SnippetUser)
	if err != nil {
		return nil, err
	}
	e := &Examples{
		Channel: Channel, Client: string(client) + "\n" + string(transports), Curl: Curl(cfg, host), Watch: Watch(host, token),
		APIKey: cfg.HTTPAPI.Key, Secret: cfg.Client.Token.HMACSecretKey,
		Docs: docs, Admin: AdminPrefix,
	}
	secret := literal(e.Secret)
	e.Python = fmt.Sprintf(pythonToken, secret, SnippetUser)
	e.Node = fmt.Sprintf(nodeToken, secret, SnippetUser)
	e.SDK = fmt.Sprintf(sdk, token, host, Channel)
	return e, nil
}

// Curl is the line that publishes to the demo page's channel.
func Curl(cfg *config.Config, host string) string {
	key := strings.ReplaceAll("X-API-Key: "+cfg.HTTPAPI.Key, "'", `'\''`)
	return fmt.Sprintf("curl -s http://%s/api/publish -H '%s' -d '%s'", host, key, publishBody)
}

// Watch is the command line that prints the events of the demo page's channel.
func Watch(host, token string) string {
	return fmt.Sprintf(`curl -sN http://%s/connection/uni_http_stream -d '{"token":"%s","subs":{"%s":{}}}'`, host, token, Channel)
}

func literal(text string) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err) // a text
	}
	return strings.TrimSpace(out.String())
}

const pythonToken = `# pip install pyjwt
import time
import jwt

secret = %s
claims = {"sub": "%s", "exp": int(time.time()) + 3600}
print(jwt.encode(claims, secret, algorithm="HS256"))
`

const nodeToken = `// no package is needed
const { createHmac } = require("node:crypto");

const secret = %s;
const claims = { sub: "%s", exp: Math.floor(Date.now() / 1000) + 3600 };

const part = value => Buffer.from(JSON.stringify(value)).toString("base64url");
const head = part({ alg: "HS256", typ: "JWT" }) + "." + part(claims);
console.log(head + "." + createHmac("sha256", secret).update(head).digest("base64url"));
`

const sdk = `// npm install centrifuge
import { Centrifuge } from "centrifuge";

const token = "%s"; // made by a backend
const client = new Centrifuge("ws://%s/connection/websocket", { token });

const subscription = client.newSubscription("%s");
subscription.on("publication", event => console.log(event.data));
subscription.subscribe();
client.connect();
`
