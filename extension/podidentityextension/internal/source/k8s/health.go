// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"sync"

	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/extension/podidentityextension/internal/source"
)

// health tells the sink how the conversation with the API server goes: once for
// each change, however often the same call fails. It is safe for concurrent use.
type health struct {
	sink   source.Sink
	logger *zap.Logger

	mu sync.Mutex
	// trouble names what was last reported, empty while all is well.
	trouble string
}

// failed reports err unless the same trouble was the last thing reported. The
// sink logs when a source goes down and comes back; that it is down for another
// reason now is logged here.
func (h *health) failed(trouble string, err error) {
	h.mu.Lock()
	before := h.trouble
	h.trouble = trouble
	h.mu.Unlock()
	if before == trouble {
		return
	}
	if before != "" {
		h.logger.Warn("The source is still down, for another reason", zap.Error(err))
	}
	h.sink.Failed(err)
}

// recovered notes that a report that implies health is about to reach the sink,
// and says whether there was trouble before.
func (h *health) recovered() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.trouble != ""
	h.trouble = ""
	return was
}
