package repository

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/gyrohq/gyro/gyrotest/need"
	"github.com/gyrohq/gyro/tools/release/version"
)

// actionlint is no requirement of the module: it takes an older version of a package for YAML than compose-go does.
const actionlint = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"

// TestWorkflows: actionlint finds nothing in the workflows.
func TestWorkflows(t *testing.T) {
	bin := t.TempDir()
	install := exec.CommandContext(t.Context(), "go", "install", actionlint)
	install.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-trimpath", "GOBIN="+bin)
	if out, err := install.CombinedOutput(); err != nil {
		need.Skip(t, "actionlint", fmt.Sprintf("a module proxy: %v: %s", err, out))
	}
	check := exec.CommandContext(t.Context(), filepath.Join(bin, "actionlint"), "-no-color", "-oneline")
	check.Dir = root
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// decode reads a file of YAML.
func decode(t *testing.T, file string, into any) {
	t.Helper()
	if err := yaml.Unmarshal(read(t, file), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// TestMakeTargets: what workflows run by make and by go run is there.
func TestMakeTargets(t *testing.T) {
	makefile := read(t, "../../Makefile")
	commands := regexp.MustCompile(`(?m)\bmake ([a-z]+)|\bgo run \./(\S+)`)
	targets := 0
	workflows, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range workflows {
		for _, found := range commands.FindAllSubmatch(read(t, name), -1) {
			targets++
			if target := found[1]; len(target) > 0 && !regexp.MustCompile(`(?m)^([a-z]+ )*`+string(target)+`( [a-z]+)*:`).Match(makefile) {
				t.Errorf("%s: there is no make %s", name, target)
			}
			if dir := found[2]; len(dir) > 0 {
				if _, err := os.Stat(filepath.Join(root, string(dir))); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
	if targets == 0 {
		t.Error("no workflow runs anything")
	}
}

// folders returns the folders that have a file of this name.
func folders(files []string, base string) (dirs []string) {
	for _, name := range files {
		if path.Base(name) == base {
			dirs = append(dirs, path.Join("/", path.Dir(name)))
		}
	}
	slices.Sort(dirs)
	return dirs
}

// TestDependabot: Dependabot looks into each folder that has dependencies.
func TestDependabot(t *testing.T) {
	var config struct {
		Updates []struct {
			Ecosystem   string `json:"package-ecosystem"`
			Directory   string
			Directories []string
		}
	}
	decode(t, "../../.github/dependabot.yml", &config)
	got := map[string][]string{}
	for _, u := range config.Updates {
		if u.Directory != "" {
			u.Directories = append(u.Directories, u.Directory)
		}
		slices.Sort(u.Directories)
		got[u.Ecosystem] = u.Directories
	}
	files := tracked(t)
	for ecosystem, want := range map[string][]string{
		"gomod":          folders(files, "go.work"), // which has all modules: TestModules
		"npm":            folders(files, "package.json"),
		"pip":            folders(files, "requirements.txt"),
		"github-actions": slices.Concat([]string{"/"}, folders(files, "action.yml")),
		"docker-compose": folders(files, "compose.yaml"),
		"devcontainers":  {"/"},
	} {
		if !slices.Equal(got[ecosystem], want) {
			t.Errorf("%s: Dependabot looks into %q, and there are %q", ecosystem, got[ecosystem], want)
		}
	}
	if dockerfiles := folders(files, "Dockerfile"); len(dockerfiles) > 0 {
		t.Errorf("Dependabot does not look into %q", dockerfiles)
	}
}

// TestModules: each go.mod is that of a module of the workspace, but for programs that tests build with their own versions.
func TestModules(t *testing.T) {
	modules, err := version.Modules(root)
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	for _, dir := range modules {
		used = append(used, path.Join("/", dir))
	}
	slices.Sort(used)
	found := slices.DeleteFunc(folders(tracked(t), "go.mod"), func(dir string) bool { return strings.Contains(dir, "/testdata/") })
	if !slices.Equal(found, used) {
		t.Errorf("go.work has %q, and there are %q", used, found)
	}
}

// TestForms: the forms of issues are as GitHub takes them: fields of its kinds, with names of their own.
func TestForms(t *testing.T) {
	forms, err := filepath.Glob("../../.github/ISSUE_TEMPLATE/*.yml")
	if err != nil || len(forms) < 3 {
		t.Fatal(forms, err)
	}
	for _, name := range forms {
		if path.Base(name) == "config.yml" {
			continue
		}
		var form struct {
			Name, Description string
			Body              []struct {
				Type, ID   string
				Attributes struct {
					Label   string
					Options []string
				}
			}
		}
		decode(t, name, &form)
		if form.Name == "" || form.Description == "" || len(form.Body) == 0 {
			t.Errorf("%s lacks a name, a description or fields", name)
		}
		ids := map[string]bool{}
		for _, field := range form.Body {
			if !slices.Contains([]string{"textarea", "input", "dropdown"}, field.Type) || field.ID == "" || ids[field.ID] || field.Attributes.Label == "" {
				t.Errorf("%s: a field %q of the type %q with the label %q", name, field.ID, field.Type, field.Attributes.Label)
			}
			if (len(field.Attributes.Options) > 0) != (field.Type == "dropdown") {
				t.Errorf("%s: %q has the options %q", name, field.ID, field.Attributes.Options)
			}
			ids[field.ID] = true
		}
	}
}

// TestDevcontainer: the container for development has all programs that tests need.
func TestDevcontainer(t *testing.T) {
	text := regexp.MustCompile(`(?m)^\s*//.*$`).ReplaceAll(read(t, "../../.devcontainer/devcontainer.json"), nil)
	var config struct {
		Image, OnCreateCommand string
		Features               map[string]struct{ Version string }
	}
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	_, programs, ok := strings.Cut(config.OnCreateCommand, "go run ./tools/loop -install ")
	if got := strings.Fields(programs); !ok || !slices.Equal(got, need.Programs()) {
		t.Errorf("%q, want -install %s", config.OnCreateCommand, strings.Join(need.Programs(), " "))
	}
	if config.Image == "" || len(config.Features) < 2 {
		t.Errorf("%+v", config)
	}
}
