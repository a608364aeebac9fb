package main

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/server/internal/config"
)

func configDocCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "configdoc", Short: "Show the configuration reference as web page or Markdown", Args: cobra.NoArgs}
	markdown := cmd.Flags().BoolP("markdown", "m", false, "print Markdown to stdout and exit")
	section := cmd.Flags().StringP("section", "s", "", "only keys below this top-level name")
	level := cmd.Flags().IntP("base-level", "l", 0, "added to heading levels")
	port := cmd.Flags().IntP("port", "p", 6060, "port of the web page")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var doc bytes.Buffer
		if err := config.WriteMarkdown(&doc, *section, *level+1); err != nil {
			return err
		}
		if *markdown {
			_, err := io.Copy(cmd.OutOrStdout(), &doc)
			return err
		}
		page := fmt.Sprintf("<!doctype html><meta charset=utf-8><title>Gyro configuration</title><pre>%s</pre>\n", html.EscapeString(doc.String()))
		return serveHTTP(cmd, "127.0.0.1", *port, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, page) // the browser may go away
		}))
	}
	return cmd
}

func filesCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "serve", Short: "Serve static files, for development", Args: cobra.NoArgs}
	dir := cmd.Flags().StringP("dir", "d", "./", "directory to serve")
	port := cmd.Flags().IntP("port", "p", 3000, "port to listen on")
	address := cmd.Flags().StringP("address", "a", "", "interface address to listen on")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		root, err := os.OpenRoot(*dir) // links do not lead out of it
		if err != nil {
			return err
		}
		defer root.Close()
		return serveHTTP(cmd, *address, *port, http.FileServerFS(root.FS()))
	}
	return cmd
}

func serveHTTP(cmd *cobra.Command, address string, port int, h http.Handler) error {
	ln, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = s.Close() // nothing is worth waiting for
	}()
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "serving on http://%s\n", ln.Addr()); err != nil {
		return err
	}
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
