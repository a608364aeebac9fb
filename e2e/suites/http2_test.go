package suites

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"encoding/xml"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// ofNetHTTP are the tests of h2spec that Go's net/http does not pass, by section and text: it reads what is too large
// and answers, closes the connection at an ambiguous window, and takes headers of HTTP/1.1. The last two pass where the
// frames of the client come before the answer, which ends the stream.
var ofNetHTTP = []string{
	`http2/4.2 Sends a large size HEADERS frame that exceeds the SETTINGS_MAX_FRAME_SIZE`,
	`http2/6.5.3 Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE`,
	`http2/8.1.2.2 Sends a HEADERS frame that contains the TE header field with any value other than "trailers"`,
	`http2/8.1.2.2 Sends a HEADERS frame that contains the connection-specific header field`,
	`http2/8.1.2.6 Sends a HEADERS frame with the "content-length" header field which does not equal the DATA frame payload length`,
	`http2/6.9.1 Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1 on a stream`,
}

func TestH2spec(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "h2spec")
	build := exec.Command("go", "build", "-o", program, "github.com/summerwind/h2spec/cmd/h2spec")
	build.Dir, build.Env = "testdata/h2spec", append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	port := serve(t)
	report := filepath.Join(dir, "report.xml")
	// It ends with an error if a test fails.
	out, _ := exec.Command(program, "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-t", "-k", "-P", "/health", "-o", "5", "-j", report).CombinedOutput()
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var r struct {
		Suites []struct {
			Package string `xml:"package,attr"`
			Cases   []struct {
				Text    string  `xml:"classname,attr"`
				Failure *string `xml:"failure"`
				Error   *string `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	n, failed := 0, make(map[string]bool)
	for _, s := range r.Suites {
		for _, c := range s.Cases {
			n++
			if c.Failure != nil || c.Error != nil {
				failed[s.Package+" "+c.Text] = true
			}
		}
	}
	for what := range failed {
		if !slices.Contains(ofNetHTTP, what) {
			t.Errorf("%s\n%s", what, out)
		}
	}
	if n != 145 {
		t.Errorf("%d tests ran", n)
	}
	t.Logf("%d of %d tests pass", n-len(failed), n)
}

func serve(t *testing.T) int {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	of := s.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(of.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	port := rig.Port(t)
	at := strconv.Itoa(port)
	server, err := rig.Launch(port, []string{"--http_server.port", at, "--health.enabled"}, []string{
		"GYRO_HTTP_SERVER_ADDRESS=127.0.0.1", "GYRO_HTTP_SERVER_TLS_ENABLED=true", "GYRO_HTTP_API_KEY=key",
		"GYRO_HTTP_SERVER_TLS_CERT_PEM=" + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: of.Certificate[0]})),
		"GYRO_HTTP_SERVER_TLS_KEY_PEM=" + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the certificate comes from httptest
	defer client.CloseIdleConnections()
	wait.Until(t, "an answer of the server", func() bool {
		resp, err := client.Get("https://127.0.0.1:" + at + "/health")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	return port
}
