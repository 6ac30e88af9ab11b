// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package saved

import (
	"fmt"
	"os"
	"strings"
)

// bootIDPath is a random UUID that the kernel makes once a boot, the same in
// every container; random(4).
const bootIDPath = "/proc/sys/kernel/random/boot_id"

// Boot names the running boot of the machine.
func Boot() (string, error) {
	b, err := os.ReadFile(bootIDPath)
	id := strings.TrimSpace(string(b))
	if err == nil && id == "" {
		err = fmt.Errorf("%s is empty", bootIDPath)
	}
	if err != nil {
		return "", fmt.Errorf("tell this boot of the machine from others: %w", err)
	}
	return id, nil
}

func sameBoot(a, b string) bool { return a == b && a != "" }
