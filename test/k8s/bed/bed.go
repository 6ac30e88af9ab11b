// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package bed runs a real Kubernetes API for tests: etcd and kube-apiserver on
// loopback, without controllers, scheduler or kubelets. Their parts are the
// tests' to play.
package bed

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// BinaryEnv names the kube-apiserver binary; by default it is the one that
// `make kube-apiserver` leaves in build/.
const BinaryEnv = "KUBE_APISERVER"

// Admin may do everything.
const Admin = "admin"

// startTimeout is long: the machine may have other work.
const startTimeout = 3 * time.Minute

// Cluster is an API server with its etcd.
type Cluster struct {
	t      testing.TB
	dir    string
	binary string
	flags  []string
	etcd   string // its client URL
	port   int

	apiserver *process
}

type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// A User is somebody whom the API server knows by a token.
type User struct{ Name, Group string }

// Start starts a cluster that ends with the test. It knows users by their
// names, which are their tokens; flags are added to kube-apiserver's.
func Start(t testing.TB, users []User, flags ...string) *Cluster {
	t.Helper()
	binary := os.Getenv(BinaryEnv)
	if binary == "" {
		binary = filepath.Join(root(t), "build", "kubeapiserver", "kube-apiserver")
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%v: build it with `make kube-apiserver`, or name it in %s", err, BinaryEnv)
	}
	c := &Cluster{t: t, dir: t.TempDir(), binary: binary, flags: flags, port: freePort(t)}
	c.writeKeys(users)
	c.startEtcd()
	c.StartAPIServer()
	return c
}

// root is the repository's.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, statErr := os.Stat(filepath.Join(dir, "builder-config.yaml")); statErr == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("not inside the repository")
	return ""
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// writeKeys writes the service account key pair and the tokens.
func (c *Cluster) writeKeys(users []User) {
	c.t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		c.t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		c.t.Fatal(err)
	}
	tokens := &bytes.Buffer{}
	for _, u := range append([]User{{Admin, "system:masters"}}, users...) {
		fmt.Fprintf(tokens, "%s,%s,uid-%s,%q\n", u.Name, u.Name, u.Name, u.Group)
	}
	for name, content := range map[string][]byte{
		"sa.key":     pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		"sa.pub":     pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		"tokens.csv": tokens.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(c.dir, name), content, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *Cluster) startEtcd() {
	c.t.Helper()
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", freePort(c.t)), fmt.Sprintf("http://127.0.0.1:%d", freePort(c.t))
	c.etcd = client
	etcd := c.run("etcd", "etcd", "--name", "t", "--data-dir", filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", "t="+peer, "--log-level", "warn")
	c.t.Cleanup(etcd.kill)
	c.await("etcd", etcd, http.DefaultClient, client+"/health", `"health":"true"`)
}

// StartAPIServer starts the API server and waits until it is ready. The
// certificate is the same at each start.
func (c *Cluster) StartAPIServer() {
	c.t.Helper()
	c.apiserver = c.run("kube-apiserver", append([]string{
		"--etcd-servers=" + c.etcd,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.port), "--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", "--cert-dir=" + filepath.Join(c.dir, "certs"),
		"--service-cluster-ip-range=10.99.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + filepath.Join(c.dir, "sa.pub"),
		"--service-account-signing-key-file=" + filepath.Join(c.dir, "sa.key"),
		"--token-auth-file=" + filepath.Join(c.dir, "tokens.csv"), "--authorization-mode=Node,RBAC",
		// Nothing here creates the service accounts that it asks for.
		"--disable-admission-plugins=ServiceAccount", "--profiling=false",
	}, c.flags...)...)
	c.t.Cleanup(c.apiserver.kill)
	client, err := rest.HTTPClientFor(c.Config(Admin))
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	c.await("kube-apiserver", c.apiserver, client, c.URL()+"/readyz", "ok")
}

// KillAPIServer ends the API server as a crash would (SIGKILL).
func (c *Cluster) KillAPIServer() { c.apiserver.kill() }

// run starts the binary; its output goes to a file that a failed test shows.
func (c *Cluster) run(name string, args ...string) *process {
	c.t.Helper()
	log, err := os.OpenFile(c.log(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	p := &process{cmd: exec.Command(c.binary, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // how it ended is in its log
	}()
	return p
}

func (c *Cluster) log(name string) string { return filepath.Join(c.dir, name+".log") }

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.exited
}

// await waits until url answers with want.
func (c *Cluster) await(name string, p *process, client *http.Client, url, want string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		if body, ok := get(ctx, client, url); ok && strings.Contains(body, want) {
			return
		}
		select {
		case <-p.exited:
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
			continue
		}
		log, _ := os.ReadFile(c.log(name))
		c.t.Fatalf("%s did not become ready; the end of its log:\n%s", name, log[max(0, len(log)-2000):])
	}
}

func get(ctx context.Context, client *http.Client, url string) (string, bool) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", false
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", false
	}
	defer resp.Body.Close()
	body := &bytes.Buffer{}
	_, err = body.ReadFrom(resp.Body)
	return body.String(), err == nil && resp.StatusCode == http.StatusOK
}

// Addr is the API server's host and port.
func (c *Cluster) Addr() string { return fmt.Sprintf("127.0.0.1:%d", c.port) }

// URL is the API server's.
func (c *Cluster) URL() string { return "https://" + c.Addr() }

// Config is how a user reaches the API server.
func (c *Cluster) Config(user string) *rest.Config {
	return &rest.Config{
		Host: c.URL(), BearerToken: user,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		QPS:             -1,
		ContentConfig:   rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"},
	}
}

// Client is a user's client. It does not limit its own rate.
func (c *Cluster) Client(user string) *kubernetes.Clientset {
	c.t.Helper()
	client, err := kubernetes.NewForConfig(c.Config(user))
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// Kubeconfig writes a kubeconfig file for a user who reaches the API server at
// addr, its own address or a proxy's.
func (c *Cluster) Kubeconfig(user, addr string) string {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"t": {Server: "https://" + addr, InsecureSkipTLSVerify: true}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {Token: user}},
		Contexts:       map[string]*clientcmdapi.Context{"t": {Cluster: "t", AuthInfo: user}},
		CurrentContext: "t",
	}, path)
	if err != nil {
		c.t.Fatal(err)
	}
	return path
}
