package admin

import (
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/web/packed"
)

// The web application, compressed as browsers get it. scripts/admin-ui.sh makes it of the sources in
// the folder admin of the repository.
//
//go:embed ui/*.gz
var embedded embed.FS

// policy lets the application load and call nothing but this server, and run no inline code.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

const ownPolicy = "frame-ancestors 'none'"

var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
}

type ui struct {
	files map[string]http.Handler // by their paths below the prefix: "/", "/app.js"
	rest  http.Handler            // nil, or of all paths below the prefix
}

func newUI(c *config.Admin, prefix string, log *slog.Logger) (*ui, error) {
	switch {
	case c.WebProxyAddress != "":
		u, err := url.Parse(c.WebProxyAddress)
		if err != nil {
			return nil, fmt.Errorf("admin.web_proxy_address: %w", err)
		}
		return &ui{rest: guarded(proxied(u, log))}, nil
	case c.WebPath != "":
		root, err := os.OpenRoot(c.WebPath)
		if err != nil {
			return nil, fmt.Errorf("admin.web_path: %w", err)
		}
		return &ui{rest: guarded(http.StripPrefix(prefix, http.FileServerFS(files{root.FS()})))}, nil
	}
	list, err := embedded.ReadDir("ui")
	if err != nil {
		return nil, err
	}
	app := &ui{files: make(map[string]http.Handler)}
	for _, e := range list {
		body, err := embedded.ReadFile("ui/" + e.Name())
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(e.Name(), ".gz")
		f := packed.Compressed(kinds[path.Ext(name)], policy, body)
		app.files["/"+strings.TrimSuffix(name, "index.html")] = only(http.MethodGet, f)
	}
	return app, nil
}

func guarded(next http.Handler) http.Handler {
	return only(http.MethodGet, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		w.Header().Set("Content-Security-Policy", ownPolicy)
		next.ServeHTTP(w, r)
	}))
}

func proxied(to *url.URL, log *slog.Logger) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Del("Authorization") // tokens are for this server alone
			r.Out.Header.Del("X-Api-Key")
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			log.Warn("the server of the web application does not answer", "key", "admin.web_proxy_address", "error", err)
			http.Error(w, "Bad Gateway: admin.web_proxy_address does not answer", http.StatusBadGateway)
		},
	}
}

// files lists no folders.
type files struct{ fs.FS }

// Open implements fs.FS.
func (d files) Open(name string) (fs.File, error) {
	f, err := d.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		index, err := d.FS.Open(strings.TrimPrefix(name+"/index.html", "./"))
		if err != nil {
			_ = f.Close() // it was only looked at
			return nil, fs.ErrNotExist
		}
		_ = index.Close()
	}
	return f, nil
}
