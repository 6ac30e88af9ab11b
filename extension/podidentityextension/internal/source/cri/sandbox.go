// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	pb "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// recordOf returns what a READY sandbox's status says of its pod, and whether
// that is all there will be: a sandbox can be READY before it has addresses.
func recordOf(id string, status *pb.PodSandboxStatus) (r podidentity.Record, complete bool, err error) {
	meta := status.GetMetadata()
	if meta.GetName() == "" {
		return podidentity.Record{}, false, fmt.Errorf("status of sandbox %s: it has no pod name", id)
	}
	r = podidentity.Record{
		Owner:   id,
		Sandbox: id,
		Identity: podidentity.Identity{
			Name:      meta.GetName(),
			Namespace: meta.GetNamespace(),
			UID:       meta.GetUid(),
			Labels:    podLabels(status.GetLabels()),
		},
		HostNetwork: status.GetLinux().GetNamespaces().GetOptions().GetNetwork() == pb.NamespaceMode_NODE,
	}
	if at := status.GetCreatedAt(); at > 0 {
		r.Begin = time.Unix(0, at)
	}
	if r.HostNetwork {
		return r, true, nil
	}
	// Only this is what the sandbox holds now: the verbose information goes on
	// showing the addresses of a stopped one (containerd 1.6, 2.2, 2.4).
	network := status.GetNetwork()
	texts := []string{network.GetIp()}
	for _, ip := range network.GetAdditionalIps() {
		texts = append(texts, ip.GetIp())
	}
	for _, text := range texts {
		if text == "" {
			continue
		}
		addr, parseErr := netip.ParseAddr(text)
		if parseErr != nil {
			return podidentity.Record{}, false, fmt.Errorf("status of sandbox %s (%s/%s): address %q: %w",
				id, meta.GetNamespace(), meta.GetName(), text, parseErr)
		}
		r.Addresses = append(r.Addresses, addr)
	}
	return r, len(r.Addresses) > 0, nil
}

// podLabels returns the labels without those by which the kubelet repeats the
// pod's name and UID (kubernetes: pkg/kubelet/types/labels.go).
func podLabels(labels map[string]string) map[string]string {
	kept := make(map[string]string, len(labels))
	for k, v := range labels {
		if !strings.HasPrefix(k, "io.kubernetes.") {
			kept[k] = v
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// networkNamespace returns the path of a sandbox's network namespace from the
// verbose information that containerd and cri-o give: a JSON document under
// "info" with the sandbox's OCI runtime specification. It is "" where there is
// none, as for a pod on the host's network.
func networkNamespace(info map[string]string) (string, error) {
	text, ok := info["info"]
	if !ok {
		return "", nil
	}
	var parsed struct {
		RuntimeSpec struct {
			Linux struct {
				Namespaces []struct{ Type, Path string }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &parsed); err != nil {
		return "", fmt.Errorf("verbose information: %w", err)
	}
	for _, ns := range parsed.RuntimeSpec.Linux.Namespaces {
		if ns.Type == "network" {
			return ns.Path, nil
		}
	}
	return "", nil
}
