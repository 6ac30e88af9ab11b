// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// TestInNetNSLeavesTheProcessWhereItIs: what others see as the process's
// namespace is its main thread's, and any goroutine may be scheduled on that.
func TestInNetNSLeavesTheProcessWhereItIs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes a network namespace")
	}
	path := filepath.Join(t.TempDir(), "netns")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("unshare", "--net="+path, "true").CombinedOutput(); err != nil {
		t.Fatalf("make a network namespace: %v: %s", err, out)
	}
	defer func() {
		if out, err := exec.Command("umount", path).CombinedOutput(); err != nil {
			t.Errorf("umount %s: %v: %s", path, err, out)
		}
	}()
	before := ownNetNS(t)
	for range 500 {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				err := InNetNS(path, func() error {
					if inside, err := os.Readlink("/proc/thread-self/ns/net"); err != nil || inside == before {
						t.Errorf("not inside: %s, %v", inside, err)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if now := ownNetNS(t); now != before {
			t.Fatalf("the process is in %s, was in %s", now, before)
		}
	}
}

func ownNetNS(t *testing.T) string {
	t.Helper()
	ns, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return ns
}
