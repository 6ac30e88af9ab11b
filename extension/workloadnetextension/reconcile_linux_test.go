// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/journal"
)

// News of a link's end that waits while the workload is attached anew says nothing
// of its new link.
func TestLateNewsOfAVanishedLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{table: newTable()} // ending an attachment takes more than a table
		s.table.put(&journal.Attachment{WorkloadID: "sandbox-1", HostIndex: 7})
		release, err := s.table.acquire(t.Context(), "sandbox-1")
		require.NoError(t, err)
		go s.vanished(t.Context(), 7)
		synctest.Wait()

		again := &journal.Attachment{WorkloadID: "sandbox-1", HostIndex: 8}
		s.table.put(again)
		release()
		synctest.Wait()
		assert.Same(t, again, s.table.get("sandbox-1"))
	})
}
