package kafka

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/gyrohq/gyro/server/internal/config"
)

// TestRole: each connection gets new credentials of the role, by those of the environment.
func TestRole(t *testing.T) {
	const arn = "arn:aws:iam::123456789012:role/gyro"
	var asked atomic.Int64
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if action, role, session := r.FormValue("Action"), r.FormValue("RoleArn"), r.FormValue("RoleSessionName"); action != "AssumeRole" || role != arn || session != "centrifugo-msk" {
			t.Errorf("got %q, %q, %q", action, role, session)
		}
		fmt.Fprintf(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
			<AccessKeyId>AKID%d</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>session</SessionToken>
			<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`, asked.Add(1))
	}))
	defer sts.Close()
	for key, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIDENV", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-central-1", "AWS_ENDPOINT_URL_STS": sts.URL,
	} {
		t.Setenv(key, value)
	}
	m, err := mechanism(&config.KafkaConsumer{SASLMechanism: "aws-msk-iam", AssumeRoleARN: arn})
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 2; n++ {
		_, message, err := m.Authenticate(t.Context(), "b-1.msk.eu-central-1.amazonaws.com:9098")
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal(message, &got); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("AKID%d/", n); len(got["x-amz-credential"]) < len(want) || got["x-amz-credential"][:len(want)] != want || got["x-amz-security-token"] != "session" {
			t.Errorf("connection %d: %s", n, message)
		}
	}

	sts.Close()
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	if _, _, err := m.Authenticate(t.Context(), "b-1.msk.eu-central-1.amazonaws.com:9098"); err == nil {
		t.Error("there are credentials without STS")
	}
}
