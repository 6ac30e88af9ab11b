// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package workloadnetextension

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/journal"
	"github.com/otelcol-retina/otelcol-retina/extension/workloadnetextension/internal/veth"
)

// reconcile brings the journal and the links into line, after a stop of any kind:
//
//	recorded, link marked      kept, its settings, addresses and routes restored
//	recorded, link a remnant   kept: it was cut short between Put and Mark
//	recorded, link gone        forgotten, its addresses cool down
//	recorded, link doomed      the same: its Detach was cut short
//	not recorded, marked       kept without a name: the storage was lost
//	not recorded, a remnant    deleted: its Attach was cut short
//	not recorded, doomed       deleted
func (s *service) reconcile(loaded journal.Loaded) error {
	found, err := s.network.List()
	if err != nil {
		return err
	}
	byID, byName := map[string]veth.Found{}, map[string]veth.Found{}
	for _, f := range found {
		if f.State == veth.Marked {
			byID[f.WorkloadID] = f
		} else {
			byName[f.Name] = f
		}
	}
	var gone []*journal.Attachment
	for _, a := range loaded.Attachments {
		f, ok := byID[a.WorkloadID]
		if !ok {
			f = byName[veth.HostName(a.WorkloadID)]
			ok = f.State == veth.Remnant
		}
		if !ok {
			gone = append(gone, a)
			continue
		}
		delete(byID, a.WorkloadID)
		delete(byName, f.Name)
		if err := s.keep(a, f); err != nil {
			return err
		}
	}
	kept := s.table.len()
	if err := s.adopt(slices.Collect(maps.Values(byID))); err != nil {
		return err
	}
	s.claim(loaded, gone)
	for _, f := range byName { // remnants and doomed links that nothing is known of
		s.reaper.add(f.Index)
	}
	if len(found)+len(loaded.Attachments) > 0 {
		s.logger.Info("Attachments restored", zap.Int("kept", kept), zap.Int("kept_without_name", s.table.len()-kept),
			zap.Int("gone", len(gone)), zap.Int("remnants_deleted", len(byName)))
	}
	return nil
}

// keep takes over a recorded attachment whose link is there.
func (s *service) keep(a *journal.Attachment, f veth.Found) error {
	if f.State == veth.Remnant {
		if err := s.network.Mark(f.Index, a.WorkloadID); err != nil {
			return err
		}
	}
	if a.HostIndex != f.Index || a.HostInterface != f.Name {
		moved := *a
		moved.HostIndex, moved.HostInterface = f.Index, f.Name
		a = &moved
		if err := s.journal.Put(a); err != nil {
			return err
		}
	}
	s.restore(a)
	if a.Workload != nil {
		if err := s.publisher.Publish(record(a)); err != nil {
			return fmt.Errorf("publish %s: %w", a.WorkloadID, err)
		}
	}
	s.table.put(a)
	return nil
}

// restore only logs a failure: one link's trouble must not keep the others from
// their service.
func (s *service) restore(a *journal.Attachment) {
	if err := s.network.Restore(a.HostIndex, a.Addresses); err != nil {
		s.logger.Error("Cannot restore the node's end of a workload's link, its addresses and its routes", zap.String("workload_id", a.WorkloadID),
			zap.String("interface", a.HostInterface), zap.Error(err))
	}
}

// adopt takes over links that count but are not recorded, with what their routes
// say. Their addresses must not be given to anybody else.
func (s *service) adopt(links []veth.Found) error {
	if len(links) == 0 {
		return nil
	}
	s.logger.Warn("The storage knows nothing of some workloads that are connected: they stay so, but their names are not known until they are attached anew",
		zap.Int("workloads", len(links)))
	routes, err := s.network.Routes()
	if err != nil {
		return err
	}
	for _, f := range links {
		a := &journal.Attachment{
			WorkloadID: f.WorkloadID, Addresses: routes[f.Index],
			HostInterface: f.Name, HostIndex: f.Index, At: time.Now().UTC(),
		}
		slices.SortFunc(a.Addresses, func(a, b netip.Addr) int { return cmp.Compare(a.BitLen(), b.BitLen()) })
		if len(a.Addresses) == 0 {
			// It is ours and leads nowhere.
			if err := s.network.Doom(f.Index, f.WorkloadID); err != nil {
				return err
			}
			s.reaper.add(f.Index)
			continue
		}
		if err := s.journal.Put(a); err != nil {
			return err
		}
		s.restore(a)
		s.table.put(a)
	}
	return nil
}

// claim takes the addresses that are in use, and those that are cooling down.
func (s *service) claim(loaded journal.Loaded, gone []*journal.Attachment) {
	for _, a := range s.table.all() {
		s.addresses.Claim(a.Addresses)
	}
	now := time.Now()
	for _, r := range loaded.Released {
		if r.At.After(now) { // the clock was set back
			r.At = now
		}
		s.addresses.Claim(r.Addresses)
		s.addresses.Release(r.Addresses, r.At)
	}
	for _, a := range gone {
		s.addresses.Claim(a.Addresses)
		s.addresses.Release(a.Addresses, now)
		if err := s.stored(s.journal.Release(a, now)); err != nil {
			continue // it is gone all the same, and found to be so again at the next start
		}
	}
}

// watchLinks ends attachments whose links are deleted by others than us: by the
// kernel, with the network namespace at the other end. It ends with ctx.
func (s *service) watchLinks(ctx context.Context, watch *veth.Watch) {
	for {
		stop := context.AfterFunc(ctx, watch.Close)
		for {
			index, ok := watch.Next()
			if !ok {
				break
			}
			s.vanished(ctx, index)
		}
		if !stop() { // closed by ctx
			return
		}
		watch.Close()
		if watch = s.watchAgain(ctx); watch == nil {
			return
		}
	}
}

// watchAgain subscribes anew, after the kernel has dropped messages, and catches
// up. It returns nil when ctx is done.
func (s *service) watchAgain(ctx context.Context) *veth.Watch {
	failing := false
	for ctx.Err() == nil {
		watch, err := veth.NewWatch()
		if err == nil {
			if err = s.catchUp(ctx); err == nil {
				return watch
			}
			watch.Close()
			watch.Drain()
		}
		if !failing {
			s.logger.Error("Cannot follow the node's links; a workload whose namespace is deleted keeps its addresses meanwhile", zap.Error(err))
		}
		failing = true
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return nil
}

// catchUp ends the attachments whose links are gone.
func (s *service) catchUp(ctx context.Context) error {
	// Those attached from here on are in the list, or in the new subscription.
	attached := s.table.all()
	found, err := s.network.List()
	if err != nil {
		return err
	}
	there := map[int]bool{}
	for _, f := range found {
		there[f.Index] = true
	}
	for _, a := range attached {
		if !there[a.HostIndex] {
			s.vanished(ctx, a.HostIndex)
		}
	}
	return nil
}

// vanished ends the attachment whose link had the index, if there is one.
func (s *service) vanished(ctx context.Context, index int) {
	id, ok := s.table.owner(index)
	if !ok {
		return
	}
	release, err := s.table.acquire(ctx, id)
	if err != nil {
		return // shutting down: the next start finds it
	}
	defer release()
	a := s.table.get(id)
	if a == nil || a.HostIndex != index {
		return
	}
	detaching := s.table.isDetaching(id)
	now := time.Now()
	// Without the storage it is gone all the same, and the next start finds it so.
	_ = s.stored(s.journal.Release(a, now))
	s.drop(a, now)
	if detaching {
		return // the reaper has deleted its link with others
	}
	s.telemetry.ExtensionWorkloadnetVanished.Add(ctx, 1)
	s.logger.Info("A workload's link was deleted without a Detach, as a rule with its network namespace: its addresses are free after their cool-down",
		zap.String("workload_id", id), zap.Stringers("addresses", a.Addresses))
}
