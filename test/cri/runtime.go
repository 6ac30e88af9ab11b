// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PodSpec says which pod to make.
type PodSpec struct {
	Name, Namespace string
	// Handler is the runtime handler, which decides the network: "" is the
	// bridge, "ptp" a routed veth, "reuse" a bridge with one address a family, "small"
	// one with a /26 and a /122.
	Handler string
	// HostNetwork puts the pod into the node's network namespace.
	HostNetwork bool
	Labels      map[string]string
	// Config, if set, changes what the runtime is asked for.
	Config func(*runtimeapi.PodSandboxConfig)
}

// Pod is a pod that was made, and the truth about it for tests.
type Pod struct {
	PodSpec
	// ID is the sandbox's, UID the pod's.
	ID, UID string
	// PID is the pause process's; NetNS the inode of its network namespace.
	PID   int
	NetNS uint64
	// Addresses are what the runtime reports: none with HostNetwork.
	Addresses []netip.Addr
	// Asked is when RunPodSandbox was called, Running when it returned.
	Asked, Running time.Time

	config *runtimeapi.PodSandboxConfig
}

// NetNSPath is the pod's network namespace as long as it lives.
func (p *Pod) NetNSPath() string { return fmt.Sprintf("/proc/%d/ns/net", p.PID) }

// Runtime is a CRI client, safe for concurrent use.
type Runtime struct {
	conn    *grpc.ClientConn
	service runtimeapi.RuntimeServiceClient
	cgroup  string
}

// Dial returns a client of the CRI service at socket. It connects on the first
// call, and again after the daemon was away.
func Dial(socket string) (*Runtime, error) {
	quick := backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20), grpc.WaitForReady(true)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick}))
	if err != nil {
		return nil, err
	}
	return &Runtime{conn: conn, service: runtimeapi.NewRuntimeServiceClient(conn), cgroup: cgroupParent(socket)}, nil
}

// Close closes the connection.
func (r *Runtime) Close() error { return r.conn.Close() }

// cgroupParent is where down.sh looks for the bed's processes: see bed.sh.
func cgroupParent(socket string) string {
	if dir, ok := strings.CutSuffix(socket, "/run/containerd.sock"); ok {
		return "/cribed" + strings.ReplaceAll(dir, "/", "-")
	}
	return ""
}

// Ready waits until the runtime's conditions are true: those given, or else that
// the runtime and its network are ready.
func (r *Runtime) Ready(ctx context.Context, conditions ...string) error {
	if conditions == nil {
		conditions = []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady}
	}
	for {
		is, err := r.Conditions(ctx)
		if err == nil {
			ready := 0
			for _, c := range conditions {
				if is[c].GetStatus() {
					ready++
				}
			}
			if ready == len(conditions) {
				return nil
			}
			err = fmt.Errorf("conditions %v", is)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("CRI service not ready: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Conditions returns what the runtime says of its state, by type.
func (r *Runtime) Conditions(ctx context.Context) (map[string]*runtimeapi.RuntimeCondition, error) {
	status, err := r.service.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return nil, err
	}
	conditions := map[string]*runtimeapi.RuntimeCondition{}
	for _, c := range status.Status.Conditions {
		conditions[c.Type] = c
	}
	return conditions, nil
}

// Version returns the runtime's name and version.
func (r *Runtime) Version(ctx context.Context) (string, error) {
	v, err := r.service.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return "", err
	}
	return v.RuntimeName + " " + v.RuntimeVersion, nil
}

// RunPod makes a pod and returns when the runtime says that it runs.
func (r *Runtime) RunPod(ctx context.Context, spec PodSpec) (*Pod, error) {
	p := &Pod{PodSpec: spec, UID: newUID()}
	p.config = r.podConfig(p)
	p.Asked = time.Now()
	run, err := r.service.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: p.config, RuntimeHandler: spec.Handler})
	if err != nil {
		return nil, fmt.Errorf("run pod %s/%s: %w", spec.Namespace, spec.Name, err)
	}
	p.Running = time.Now()
	p.ID = run.PodSandboxId
	return p, r.fill(ctx, p)
}

// fill asks the runtime for what only it knows of a new pod.
func (r *Runtime) fill(ctx context.Context, p *Pod) error {
	response, err := r.service.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.ID, Verbose: true})
	if err != nil {
		return err
	}
	var info struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(response.Info["info"]), &info); err != nil || info.PID == 0 {
		return fmt.Errorf("sandbox %s: no pid in its info: %w", p.ID, err)
	}
	p.PID = info.PID
	var stat syscall.Stat_t
	if err := syscall.Stat(p.NetNSPath(), &stat); err != nil {
		return fmt.Errorf("network namespace of pod %s: %w", p.Name, err)
	}
	p.NetNS = stat.Ino
	p.Addresses = addresses(response.Status.GetNetwork())
	return nil
}

// Addresses returns what the runtime says now of a sandbox's addresses.
func (r *Runtime) Addresses(ctx context.Context, id string) ([]netip.Addr, error) {
	response, err := r.service.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	return addresses(response.GetStatus().GetNetwork()), err
}

func addresses(network *runtimeapi.PodSandboxNetworkStatus) (addrs []netip.Addr) {
	ips := []string{network.GetIp()}
	for _, ip := range network.GetAdditionalIps() {
		ips = append(ips, ip.Ip)
	}
	for _, ip := range ips {
		if addr, err := netip.ParseAddr(ip); err == nil {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

func (r *Runtime) podConfig(p *Pod) *runtimeapi.PodSandboxConfig {
	labels := map[string]string{ // as a kubelet sets them
		"io.kubernetes.pod.name": p.Name, "io.kubernetes.pod.namespace": p.Namespace, "io.kubernetes.pod.uid": p.UID,
	}
	for k, v := range p.Labels {
		labels[k] = v
	}
	namespaces := &runtimeapi.NamespaceOption{}
	hostname := p.Name
	if p.HostNetwork {
		namespaces.Network = runtimeapi.NamespaceMode_NODE
		hostname = "" // runc: "unable to set hostname without a private UTS namespace"
	}
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: p.Name, Namespace: p.Namespace, Uid: p.UID},
		Hostname: hostname,
		Labels:   labels,
		// Without it the runtime copies the machine's /etc/resolv.conf, which may
		// point to what the node's mount namespace lacks.
		DnsConfig: &runtimeapi.DNSConfig{Servers: []string{"127.0.0.1"}},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    r.cgroup,
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: namespaces},
		},
	}
	if p.Config != nil {
		p.Config(config)
	}
	return config
}

// StartContainer runs command in a new busybox container of the pod and returns
// the container's id.
func (r *Runtime) StartContainer(ctx context.Context, p *Pod, name string, command ...string) (string, error) {
	created, err := r.service.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: p.ID, SandboxConfig: p.config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name},
			Image:    &runtimeapi.ImageSpec{Image: "localhost/busybox:1"},
			Labels:   map[string]string{"io.kubernetes.container.name": name},
			Command:  command,
		},
	})
	if err != nil {
		return "", fmt.Errorf("create container in pod %s: %w", p.Name, err)
	}
	if _, err = r.service.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: created.ContainerId}); err != nil {
		return "", fmt.Errorf("start container in pod %s: %w", p.Name, err)
	}
	return created.ContainerId, nil
}

// Exec runs command in a container and returns its standard output.
func (r *Runtime) Exec(ctx context.Context, container string, command ...string) (string, error) {
	response, err := r.service.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: container, Cmd: command, Timeout: 60})
	if err != nil {
		return "", fmt.Errorf("exec %v: %w", command, err)
	}
	if response.ExitCode != 0 {
		return "", fmt.Errorf("exec %v: exit code %d: %s%s", command, response.ExitCode, response.Stdout, response.Stderr)
	}
	return string(response.Stdout), nil
}

// Sandboxes lists all sandboxes, in any state.
func (r *Runtime) Sandboxes(ctx context.Context) ([]*runtimeapi.PodSandbox, error) {
	list, err := r.service.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	return list.GetItems(), err
}

// StopPod stops a sandbox: its network is torn down and its addresses are free
// when it returns.
func (r *Runtime) StopPod(ctx context.Context, id string) error {
	_, err := r.service.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	return err
}

// RemovePod stops and removes a sandbox.
func (r *Runtime) RemovePod(ctx context.Context, id string) error {
	if err := r.StopPod(ctx, id); err != nil {
		return fmt.Errorf("stop sandbox %s: %w", id, err)
	}
	if _, err := r.service.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	return nil
}

// Events calls f for each container event until ctx is done or the stream ends.
// containerd 1.6 answers Unimplemented.
func (r *Runtime) Events(ctx context.Context, f func(*runtimeapi.ContainerEventResponse)) error {
	stream, err := r.service.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	for err == nil {
		var event *runtimeapi.ContainerEventResponse
		if event, err = stream.Recv(); err == nil {
			f(event)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func newUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
