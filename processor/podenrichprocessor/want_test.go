// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podenrichprocessor

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestStartAsksForTheConfiguredLabelsAndAnnotations(t *testing.T) {
	identities := newFake()
	newBed(t, newConfig(func(c *Config) {
		c.Labels, c.Annotations = []string{"app", "tier"}, []string{"team"}
	}), identities)
	assert.Equal(t, []string{"app", "tier"}, identities.labels)
	assert.Equal(t, []string{"team"}, identities.annotations)
}
