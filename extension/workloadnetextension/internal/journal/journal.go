// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/extension/xextension/storage"
)

// ErrStorage: the storage extension failed, or did not answer in time.
var ErrStorage = errors.New("storage")

// Timeout bounds every call of the storage extension, and how long a change waits
// for one.
const Timeout = 10 * time.Second

// Journal writes changes to a storage client, as many at a time as have come
// while it was writing. It is safe for concurrent use.
type Journal struct {
	client   storage.Client
	coolDown time.Duration
	now      func() time.Time
	timeout  time.Duration

	changes chan *change
	closing chan struct{}
	once    sync.Once
	stopped chan struct{} // the writer has ended

	// shards belong to the writer.
	shards [numShards]shard

	prefixes prefixesJSON // that were there when it was opened
}

// change is a change that its maker waits for, at most for the timeout.
type change struct {
	shard int
	// apply changes the shard and returns what changes it back.
	apply func(*shard) (undo func(*shard))
	undo  func(*shard)
	// answer has room for the one answer; whoever closes abandoned does not read it.
	answer    chan error
	mu        sync.Mutex
	abandoned bool
}

// Loaded is what a journal held when it was opened.
type Loaded struct {
	Attachments []*Attachment
	Released    []Released // that have not cooled down, in the order of their times
	// Damaged are the errors of those shards that can't be read, by key. What they
	// held is lost, and overwritten.
	Damaged map[string]error
	// DamagedPrefixes is why the prefixes can't be read, if that is so.
	DamagedPrefixes error
}

// Open reads the journal that client holds. It fails if the storage does, and on
// what a later version has written. The journal owns client from here on, if
// there is no error.
func Open(ctx context.Context, client storage.Client, coolDown time.Duration) (*Journal, Loaded, error) {
	return open(ctx, client, coolDown, time.Now, Timeout)
}

func open(ctx context.Context, client storage.Client, coolDown time.Duration, now func() time.Time, timeout time.Duration) (*Journal, Loaded, error) {
	j := &Journal{
		client: client, coolDown: coolDown, now: now, timeout: timeout,
		changes: make(chan *change), closing: make(chan struct{}), stopped: make(chan struct{}),
	}
	loaded, err := j.load(ctx)
	if err != nil {
		return nil, Loaded{}, err
	}
	go j.write()
	return j, loaded, nil
}

func (j *Journal) load(ctx context.Context) (Loaded, error) {
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	ops := make([]*storage.Operation, numShards)
	for i := range ops {
		ops[i] = storage.GetOperation(shardKey(i))
	}
	prefixes := storage.GetOperation(prefixesKey)
	if err := j.client.Batch(ctx, append(slices.Clone(ops), prefixes)...); err != nil {
		return Loaded{}, fmt.Errorf("%w: read the attachments: %w", ErrStorage, err)
	}
	loaded := Loaded{Damaged: map[string]error{}}
	loaded.DamagedPrefixes = j.loadPrefixes(prefixes.Value)
	for i, op := range ops {
		j.shards[i].attachments = map[string]*Attachment{}
		if op.Value == nil {
			continue
		}
		s, err := decode(op.Value)
		if errors.Is(err, errVersion) {
			return Loaded{}, fmt.Errorf("storage key %q: %w", op.Key, err)
		}
		if err != nil {
			loaded.Damaged[op.Key] = err
			continue
		}
		j.shards[i] = *s
		for _, a := range s.attachments {
			loaded.Attachments = append(loaded.Attachments, a)
		}
		loaded.Released = append(loaded.Released, s.released...)
	}
	// A shard keeps them until it is written the next time.
	loaded.Released = slices.DeleteFunc(loaded.Released, cooledDown(j.since()))
	slices.SortFunc(loaded.Released, func(a, b Released) int { return a.At.Compare(b.At) })
	return loaded, nil
}

// Put keeps a, in the place of what was kept for its workload.
func (j *Journal) Put(a *Attachment) error {
	return j.do(a.WorkloadID, func(s *shard) func(*shard) {
		return s.replace(a.WorkloadID, a)
	})
}

// Delete forgets a workload's attachment, as if it had never been.
func (j *Journal) Delete(workloadID string) error {
	return j.do(workloadID, func(s *shard) func(*shard) {
		return s.replace(workloadID, nil)
	})
}

// Release forgets a's workload, but keeps in mind that its addresses were in use
// until the given time.
func (j *Journal) Release(a *Attachment, at time.Time) error {
	return j.do(a.WorkloadID, func(s *shard) func(*shard) {
		undo := s.replace(a.WorkloadID, nil)
		if len(a.Addresses) == 0 {
			return undo
		}
		s.released = append(s.released, Released{a.Addresses, at})
		return func(s *shard) {
			undo(s)
			s.released = slices.DeleteFunc(s.released, func(r Released) bool {
				return r.At.Equal(at) && slices.Equal(r.Addresses, a.Addresses)
			})
		}
	})
}

// Probe writes a shard as it is, to find out whether the storage works.
func (j *Journal) Probe() error {
	return j.do("", func(s *shard) func(*shard) {
		before := s.probed
		s.probed = true
		return func(s *shard) { s.probed = before }
	})
}

func (s *shard) replace(id string, a *Attachment) (undo func(*shard)) {
	before := s.attachments[id]
	set := func(s *shard, a *Attachment) {
		if a == nil {
			delete(s.attachments, id)
		} else {
			s.attachments[id] = a
		}
	}
	set(s, a)
	return func(s *shard) { set(s, before) }
}

// do has the writer make a change, and waits for it. After an error the change
// is not made, and won't be.
func (j *Journal) do(workloadID string, apply func(*shard) func(*shard)) error {
	c := &change{shard: shardOf(workloadID), apply: apply, answer: make(chan error, 1)}
	timeout := time.NewTimer(j.timeout)
	defer timeout.Stop()
	select {
	case j.changes <- c:
	case <-j.closing:
		return fmt.Errorf("%w: closed", ErrStorage)
	case <-timeout.C:
		return fmt.Errorf("%w: no answer in %s", ErrStorage, j.timeout)
	}
	select {
	case err := <-c.answer:
		return err
	case <-timeout.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case err := <-c.answer: // just in time
		return err
	default:
		c.abandoned = true
		return fmt.Errorf("%w: no answer in %s", ErrStorage, j.timeout)
	}
}

// write is the writer: it alone touches the shards and writes to the storage.
func (j *Journal) write() {
	defer close(j.stopped)
	var undo []*change // changes to take back, whose makers have given up
	for {
		batch := undo
		if len(batch) == 0 {
			select {
			case c := <-j.changes:
				batch = []*change{c}
			case <-j.closing:
				return
			}
		}
		batch = j.more(batch)
		undo = j.commit(batch)
	}
}

// more adds the changes that are waiting.
func (j *Journal) more(batch []*change) []*change {
	for {
		select {
		case c := <-j.changes:
			batch = append(batch, c)
		default:
			return batch
		}
	}
}

// commit writes a batch and answers its makers. It returns changes that take back
// those that succeeded too late.
func (j *Journal) commit(batch []*change) (late []*change) {
	touched := map[int]bool{}
	for _, c := range batch {
		c.undo = c.apply(&j.shards[c.shard])
		touched[c.shard] = true
	}
	err := j.store(touched)
	if err != nil {
		for _, c := range slices.Backward(batch) {
			c.undo(&j.shards[c.shard])
		}
	}
	for _, c := range batch {
		c.mu.Lock()
		c.answer <- err
		if c.abandoned && err == nil {
			late = append(late, &change{shard: c.shard, answer: make(chan error, 1), apply: func(s *shard) func(*shard) {
				c.undo(s)
				return func(*shard) {} // if the storage fails, the next change writes it
			}})
		}
		c.mu.Unlock()
	}
	return late
}

// since is when the releases began that have not cooled down.
func (j *Journal) since() time.Time { return j.now().Add(-j.coolDown) }

func (j *Journal) store(touched map[int]bool) error {
	since := j.since()
	var ops []*storage.Operation
	for i := range touched {
		value, err := j.shards[i].encode(since)
		if err != nil {
			return fmt.Errorf("%w: encode the attachments: %w", ErrStorage, err)
		}
		if value == nil {
			ops = append(ops, storage.DeleteOperation(shardKey(i)))
		} else {
			ops = append(ops, storage.SetOperation(shardKey(i), value))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.timeout)
	defer cancel()
	if err := j.client.Batch(ctx, ops...); err != nil {
		return fmt.Errorf("%w: write the attachments: %w", ErrStorage, err)
	}
	return nil
}

// prefixesKey is where the prefixes are kept that were learned, not configured.
const prefixesKey = "prefixes"

// prefixesJSON are the prefixes as they are stored, with the node that they are of: a
// disk may be another node's by the next start.
type prefixesJSON struct {
	Node     string         `json:"node"`
	Prefixes []netip.Prefix `json:"prefixes"`
}

func (j *Journal) loadPrefixes(value []byte) error {
	if value == nil {
		return nil
	}
	var stored prefixesJSON
	err := json.Unmarshal(value, &stored)
	if err == nil {
		j.prefixes = stored
	}
	return err
}

// Prefixes returns the node's prefixes that were kept when the journal was opened,
// nil if none were.
func (j *Journal) Prefixes(node string) []netip.Prefix {
	if j.prefixes.Node != node {
		return nil
	}
	return j.prefixes.Prefixes
}

// PutPrefixes keeps a node's prefixes; nil forgets them.
func (j *Journal) PutPrefixes(ctx context.Context, node string, prefixes []netip.Prefix) error {
	value, err := json.Marshal(prefixesJSON{node, prefixes})
	if err != nil {
		return fmt.Errorf("%w: encode the prefixes: %w", ErrStorage, err)
	}
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	if err := j.client.Set(ctx, prefixesKey, value); err != nil {
		return fmt.Errorf("%w: write the prefixes: %w", ErrStorage, err)
	}
	return nil
}

// Close ends the journal, after the changes under way. It waits at most until ctx
// is done, and is safe twice.
func (j *Journal) Close(ctx context.Context) error {
	var err error
	j.once.Do(func() {
		close(j.closing)
		select {
		case <-j.stopped:
			err = j.client.Close(ctx)
		case <-ctx.Done():
			err = fmt.Errorf("%w: it is still writing: %w", ErrStorage, ctx.Err())
		}
	})
	return err
}
