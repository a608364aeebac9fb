package main

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const gyro = "../../deploy/helm/gyro"

// object is a manifest: what this test looks at.
type object struct {
	APIVersion, Kind string
	Metadata         struct {
		Name   string
		Labels map[string]string
	}
	Spec map[string]any
}

// manifests renders the chart of Gyro.
func manifests(t *testing.T, set ...string) (all []object) {
	t.Helper()
	var args []string
	for _, s := range set {
		args = append(args, "-set", s)
	}
	var out bytes.Buffer
	if err := run(append(args, "r", gyro), &out); err != nil {
		t.Fatal(err)
	}
	for _, text := range strings.Split(out.String(), "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

func find(t *testing.T, all []object, kind, name string) object {
	t.Helper()
	at := slices.IndexFunc(all, func(o object) bool { return o.Kind == kind && o.Metadata.Name == name })
	if at < 0 {
		t.Fatalf("there is no %s %s", kind, name)
	}
	return all[at]
}

// as reads a part of a manifest into a value whose fields are all that the part may have.
func as[T any](t *testing.T, part any) (value T) {
	t.Helper()
	text, err := yaml.Marshal(part)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &value)
	}
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestServiceMonitor: the Prometheus operator finds the Service of the internal port, and only that, and its port. The
// fields are those of monitoring.coreos.com/v1.
func TestServiceMonitor(t *testing.T) {
	all := manifests(t, "serviceMonitor.enabled=true", "serviceMonitor.labels={release: prometheus}")
	monitor := find(t, all, "ServiceMonitor", "r")
	if monitor.APIVersion != "monitoring.coreos.com/v1" || monitor.Metadata.Labels["release"] != "prometheus" {
		t.Errorf("%+v", monitor)
	}
	spec := as[struct {
		Selector  struct{ MatchLabels map[string]string }
		Endpoints []struct {
			Port, Path, Interval, ScrapeTimeout string
			Relabelings                         []struct{ TargetLabel, Replacement string }
		}
	}](t, monitor.Spec)
	if r := spec.Endpoints[0].Relabelings; len(r) != 1 || r[0].TargetLabel != "cluster" || r[0].Replacement != "r" {
		t.Errorf("the label cluster is not the name of the release: %+v", r)
	}
	var found []string
	for _, o := range all {
		if o.Kind != "Service" {
			continue
		}
		matches := true
		for key := range maps.Keys(spec.Selector.MatchLabels) {
			matches = matches && o.Metadata.Labels[key] == spec.Selector.MatchLabels[key]
		}
		if !matches {
			continue
		}
		found = append(found, o.Metadata.Name)
		ports := as[[]struct {
			Name             string
			Port, TargetPort any
		}](t, o.Spec["ports"])
		if len(spec.Endpoints) != 1 || ports[0].Name != spec.Endpoints[0].Port || spec.Endpoints[0].Path != "/metrics" {
			t.Errorf("%+v, ports %+v", spec.Endpoints, ports)
		}
	}
	if !slices.Equal(found, []string{"r-internal"}) {
		t.Errorf("it selects %v", found)
	}
	for _, o := range manifests(t, "serviceMonitor.enabled=true", "metrics.enabled=false") {
		if o.Kind == "ServiceMonitor" {
			t.Error("a monitor of metrics that are off")
		}
	}
}

// TestIngress: clients reach their endpoints, and the one for the commands of streams.
func TestIngress(t *testing.T) {
	ingress := find(t, manifests(t, "ingress.enabled=true", "ingress.host=a.example"), "Ingress", "r")
	spec := as[struct {
		IngressClassName string
		Rules            []struct {
			Host string
			HTTP struct {
				Paths []struct {
					Path, PathType string
					Backend        map[string]any
				}
			}
		}
	}](t, ingress.Spec)
	var paths []string
	for _, p := range spec.Rules[0].HTTP.Paths {
		paths = append(paths, p.Path)
	}
	if !slices.Equal(paths, []string{"/connection", "/emulation"}) {
		t.Errorf("the paths are %q", paths)
	}
}

// TestAutoscaling: by CPU, by connections, by both, and not by neither.
func TestAutoscaling(t *testing.T) {
	for _, tt := range []struct {
		cpu, connections string
		want             []string
	}{
		{"60", "0", []string{"Resource"}},
		{"0", "20000", []string{"Pods"}},
		{"60", "20000", []string{"Resource", "Pods"}},
	} {
		all := manifests(t, "autoscaling.enabled=true", "autoscaling.targetCPUPercent="+tt.cpu, "autoscaling.targetConnections="+tt.connections)
		var types []string
		for _, m := range as[[]map[string]any](t, find(t, all, "HorizontalPodAutoscaler", "r").Spec["metrics"]) {
			types = append(types, m["type"].(string))
		}
		if !slices.Equal(types, tt.want) {
			t.Errorf("%+v: %v", tt, types)
		}
		if deployment := find(t, all, "Deployment", "r"); deployment.Spec["replicas"] != nil {
			t.Error("the chart sets the number that the autoscaler sets")
		}
	}
	for set, want := range map[string]string{"autoscaling.targetCPUPercent=0": "targetConnections", "shutdown.drainSeconds=16": "drainSeconds"} {
		err := run([]string{"-set", "autoscaling.enabled=true", "-set", set, "r", gyro}, &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", set, err)
		}
	}
}

// TestStopping: Kubernetes waits for longer than a node may take.
func TestStopping(t *testing.T) {
	all := manifests(t, "shutdown.preStopSeconds=7", "shutdown.timeoutSeconds=40", "shutdown.drainSeconds=20")
	pod := find(t, all, "Deployment", "r").Spec["template"].(map[string]any)["spec"].(map[string]any)
	if grace := pod["terminationGracePeriodSeconds"].(float64); grace <= 47 {
		t.Errorf("%v s", grace)
	}
}
