package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// composeFile is what the tests read of docker-compose.yml.
type composeFile struct {
	Services map[string]service
	Networks map[string]struct{ Internal bool }
	Volumes  map[string]any
	Secrets  map[string]struct{ File string }
}

type service struct {
	Image       string
	Build       struct{ Context, Dockerfile string }
	Command     []string
	Environment map[string]string
	Volumes     []string
	Ports       []string
	Secrets     []string
	Networks    []string
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	CapDrop     []string                              `yaml:"cap_drop"`
	SecurityOpt []string                              `yaml:"security_opt"`
	Healthcheck struct{ Test []string }
	ReadOnly    bool `yaml:"read_only"`
	Privileged  bool
	Restart     string
	Deploy      struct{ Replicas int }
}

func readCompose(t *testing.T) composeFile {
	t.Helper()
	var c composeFile
	readYAML(t, "docker-compose.yml", &c)
	if len(c.Services) == 0 {
		t.Fatal("docker-compose.yml has no services")
	}
	return c
}

var pinned = regexp.MustCompile(`^[a-z0-9./-]+:v?\d+\.\d+\.\d+(-[a-z0-9.]+)?$`)

// Every image is one release and not whatever a moving tag points at today.
func TestImagesArePinned(t *testing.T) {
	t.Parallel()
	for name, s := range readCompose(t).Services {
		if s.Build.Context == "" && !pinned.MatchString(s.Image) {
			t.Errorf("%s: image %q is not pinned to a release", name, s.Image)
		}
	}
	stages := regexp.MustCompile(`(?m)^FROM (?:--platform=\S+ )?(\S+)`).FindAllStringSubmatch(readText(t, "deploy/Dockerfile"), -1)
	if len(stages) != 2 {
		t.Fatalf("Dockerfile has %d stages, want 2", len(stages))
	}
	for _, m := range stages {
		if m[1] != "scratch" && !pinned.MatchString(m[1]) {
			t.Errorf("Dockerfile: FROM %s is not pinned to a release", m[1])
		}
	}
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(readText(t, "go.mod"))
	if builder := stages[0][1]; language == nil || !strings.HasPrefix(builder, "golang:"+language[1]+".") {
		t.Errorf("the builder is %s, go.mod states %v", builder, language)
	}
}

// Everything that is mounted from the repository is there, and nothing of it can be written by a container.
func TestMountedFilesExist(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			source, rest, _ := strings.Cut(v, ":")
			if !strings.HasPrefix(source, ".") {
				if _, ok := c.Volumes[source]; !ok {
					t.Errorf("%s: no volume %s", name, source)
				}
				continue
			}
			if _, err := os.Stat(filepath.Join(root, source)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if !strings.HasSuffix(rest, ":ro") {
				t.Errorf("%s: %s can be written", name, v)
			}
		}
		if s.Build.Dockerfile != "" && !isFile(filepath.Join(root, s.Build.Dockerfile)) {
			t.Errorf("%s: no %s", name, s.Build.Dockerfile)
		}
		for other := range s.DependsOn {
			if _, ok := c.Services[other]; !ok {
				t.Errorf("%s depends on %s, which is no service", name, other)
			}
		}
		for _, n := range s.Networks {
			if _, ok := c.Networks[n]; !ok {
				t.Errorf("%s: no network %s", name, n)
			}
		}
	}
}

// Nothing is published beyond loopback, the broker and the database not at all, and no process has more rights than it needs.
func TestNothingIsOpenThatNeedNotBe(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	published := map[string]bool{}
	for name, s := range c.Services {
		for _, p := range s.Ports {
			published[name] = true
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s publishes %s beyond this machine", name, p)
			}
		}
		if s.Privileged || !slices.Contains(s.CapDrop, "ALL") || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s keeps privileges", name)
		}
		if s.Build.Context != "" && !s.ReadOnly {
			t.Errorf("%s can write its file system", name)
		}
		if s.Restart != "no" && len(s.Healthcheck.Test) == 0 {
			t.Errorf("%s has no health check", name)
		}
	}
	for name, want := range map[string]bool{"gateway": true, "grafana": true, "prometheus": true} {
		if published[name] != want {
			t.Errorf("%s is not published", name)
		}
		delete(published, name)
	}
	if len(published) > 0 {
		t.Errorf("published as well: %v", published)
	}
	for _, name := range []string{"kafka", "timescaledb"} {
		if networks := c.Services[name].Networks; !slices.Equal(networks, []string{"data"}) || !c.Networks["data"].Internal {
			t.Errorf("%s is on %v, want the internal network data alone", name, networks)
		}
	}
}

// A secret is a file: none stands in an environment variable, and each one that is used is made by secrets.sh.
func TestSecretsAreFilesThatTheScriptMakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		if out, err := exec.Command("sh", "secrets.sh", dir).CombinedOutput(); err != nil {
			t.Fatalf("secrets.sh: %v\n%s", err, out)
		}
	}
	c := readCompose(t)
	for name, s := range c.Secrets {
		text, err := os.ReadFile(filepath.Join(dir, filepath.Base(s.File)))
		// The password of the mail server is for people to fill in.
		if err != nil || len(text) < 24 && name != "smtp_password" {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
	for name, s := range c.Services {
		for _, secret := range s.Secrets {
			if _, ok := c.Secrets[secret]; !ok {
				t.Errorf("%s: no secret %s", name, secret)
			}
		}
		for key, value := range s.Environment {
			file, isSecretFile := strings.CutPrefix(value, "/run/secrets/")
			if isSecretFile && (!strings.HasSuffix(key, "_FILE") || !slices.Contains(s.Secrets, file)) {
				t.Errorf("%s: %s=%s is not given to it as a file", name, key, value)
			}
			if !isSecretFile && regexp.MustCompile(`PASSWORD|SECRET|TOKEN|KEY`).MatchString(key) {
				t.Errorf("%s: %s holds a secret itself", name, key)
			}
		}
	}
}

// The database image is one whose scheduled jobs work: PostgreSQL 17.12 stops those of TimescaleDB before 2.31.2.
func TestDatabaseImageIsNotOneWithBrokenJobs(t *testing.T) {
	t.Parallel()
	image := readCompose(t).Services["timescaledb"].Image
	m := regexp.MustCompile(`:2\.(\d+)\.(\d+)-pg17$`).FindStringSubmatch(image)
	if m == nil || m[1] < "31" || m[1] == "31" && m[2] < "2" {
		t.Errorf("image %s, want TimescaleDB 2.31.2 or later on PostgreSQL 17", image)
	}
}

// Docker's own reader accepts the file, where there is one.
func TestComposeAcceptsTheFile(t *testing.T) {
	t.Parallel()
	docker, err := exec.LookPath("docker")
	if err != nil || exec.Command(docker, "compose", "version").Run() != nil {
		if os.Getenv("GITHUB_ACTIONS") == "true" {
			t.Fatal("docker compose is missing, which GitHub's machines have")
		}
		t.Skip("docker compose is not installed: the other tests read the file without it")
	}
	cmd := exec.Command(docker, "compose", "-f", filepath.Join(root, "docker-compose.yml"), "config", "--quiet")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("docker compose config: %v\n%s", err, out)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
