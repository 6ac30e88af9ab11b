// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var at = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func attachment(i int) *Attachment {
	return &Attachment{
		WorkloadID: fmt.Sprint("sandbox-", i), NetNSPath: "/run/netns/x", NetNS: 4026532000, IfName: "eth0",
		Workload:  &Workload{Name: "web", Namespace: "shop", UID: "u", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"a": "b"}},
		DNS:       &DNS{Servers: []string{"192.0.2.53"}, Searches: []string{"local"}, Options: []string{"ndots:5"}},
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 88, byte(i >> 8), byte(i)}), netip.MustParseAddr("fd00:88::2")},
		MAC:       "0a:00:00:00:00:01", HostInterface: "wn0123456789ab", HostIndex: 7, At: at,
	}
}

// fileStorage opens the contrib file_storage extension over dir.
func fileStorage(t testing.TB, dir string) storage.Client {
	factory := filestorage.NewFactory()
	config := factory.CreateDefaultConfig().(*filestorage.Config)
	config.Directory = dir
	ext, err := factory.Create(context.Background(), extensiontest.NewNopSettings(factory.Type()), config)
	require.NoError(t, err)
	require.NoError(t, ext.Start(context.Background(), componenttest.NewNopHost()))
	t.Cleanup(func() { assert.NoError(t, ext.Shutdown(context.Background())) })
	client, err := ext.(storage.Extension).GetClient(context.Background(), component.KindExtension, component.MustNewID("workloadnet"), "")
	require.NoError(t, err)
	return client
}

func mustOpen(t testing.TB, client storage.Client) (*Journal, Loaded) {
	j, loaded, err := Open(context.Background(), client, time.Minute)
	require.NoError(t, err)
	require.Empty(t, loaded.Damaged)
	slices.SortFunc(loaded.Attachments, func(a, b *Attachment) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	return j, loaded
}

func closeJournal(t testing.TB, j *Journal) {
	require.NoError(t, j.Close(context.Background()))
	require.NoError(t, j.Close(context.Background()), "twice is once")
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	j, loaded := mustOpen(t, fileStorage(t, dir))
	assert.Empty(t, loaded.Attachments)
	now := time.Now().UTC()
	var want []*Attachment
	for i := range 5 {
		a := attachment(i)
		a.At = at.Add(time.Duration(i) * time.Second)
		require.NoError(t, j.Put(a))
		want = append(want, a)
	}
	require.NoError(t, j.Delete("sandbox-0"))
	require.NoError(t, j.Release(want[2], now.Add(-30*time.Second)))
	require.NoError(t, j.Release(want[1], now.Add(-40*time.Second)))
	require.NoError(t, j.Delete("never there"))
	closeJournal(t, j)

	j, loaded = mustOpen(t, fileStorage(t, dir))
	assert.Equal(t, want[3:], loaded.Attachments)
	assert.Equal(t, []Released{
		{want[1].Addresses, now.Add(-40 * time.Second)},
		{want[2].Addresses, now.Add(-30 * time.Second)},
	}, loaded.Released, "in the order in which they cool down")
	closeJournal(t, j)
}

func TestReleasesAreForgottenAfterTheCoolDown(t *testing.T) {
	var s shard
	s.released = []Released{{attachment(1).Addresses, at}, {attachment(2).Addresses, at.Add(time.Minute)}}
	b, err := s.encode(at.Add(time.Second))
	require.NoError(t, err)
	decoded, err := decode(b)
	require.NoError(t, err)
	assert.Equal(t, []Released{{attachment(2).Addresses, at.Add(time.Minute)}}, decoded.released)
	b, err = s.encode(at.Add(time.Hour))
	require.NoError(t, err)
	assert.Nil(t, b, "an empty shard is not stored at all")
}

// A shard that nothing is written to keeps its releases; they are not loaded all the same.
func TestOpenLeavesOutWhatHasCooledDown(t *testing.T) {
	f := newFake()
	j, _ := mustOpen(t, f)
	now := time.Now().UTC()
	require.NoError(t, j.Release(attachment(1), now.Add(-59*time.Second)))
	require.NoError(t, j.Release(attachment(2), now))
	closeJournal(t, j)
	later := func() time.Time { return now.Add(2 * time.Second) }
	j, loaded, err := open(context.Background(), f, time.Minute, later, Timeout)
	require.NoError(t, err)
	assert.Equal(t, []Released{{attachment(2).Addresses, now}}, loaded.Released)
	closeJournal(t, j)
}

// What is answered is kept, whatever else is going on at the time.
func TestConcurrentChanges(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, fileStorage(t, dir))
	var wg sync.WaitGroup
	for i := range 600 {
		wg.Go(func() {
			assert.NoError(t, j.Put(attachment(i)))
			if i%3 == 0 {
				assert.NoError(t, j.Release(attachment(i), time.Now()))
			}
		})
	}
	wg.Wait()
	closeJournal(t, j)
	j, loaded := mustOpen(t, fileStorage(t, dir))
	assert.Len(t, loaded.Attachments, 400)
	assert.Len(t, loaded.Released, 200)
	closeJournal(t, j)
}

// fake is a storage client in memory whose writes can be made to fail or hang: no
// real storage does so when asked to.
type fake struct {
	storage.Client
	mu      sync.Mutex
	values  map[string][]byte
	err     error
	hang    chan struct{} // writes wait for it to be closed
	batches int
	closed  bool
}

func newFake() *fake { return &fake{values: map[string][]byte{}} }

func (f *fake) Batch(_ context.Context, ops ...*storage.Operation) error {
	f.mu.Lock()
	hang := f.hang
	f.mu.Unlock()
	if hang != nil {
		<-hang
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batches++
	if f.err != nil {
		return f.err
	}
	for _, op := range ops {
		switch op.Type {
		case storage.Get:
			op.Value = f.values[op.Key]
		case storage.Set:
			f.values[op.Key] = op.Value
		case storage.Delete:
			delete(f.values, op.Key)
		}
	}
	return nil
}

func (f *fake) Close(context.Context) error { f.closed = true; return nil }

func (f *fake) set(err error, hang chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.hang = err, hang
}

func TestFailedChangeIsNotMade(t *testing.T) {
	f := newFake()
	j, _ := mustOpen(t, f)
	require.NoError(t, j.Put(attachment(1)))
	disk := errors.New("disk full")
	for _, change := range []func() error{
		func() error { return j.Put(attachment(2)) },
		func() error { return j.Delete("sandbox-1") },
		func() error { return j.Release(attachment(1), time.Now()) },
	} {
		f.set(disk, nil)
		err := change()
		assert.ErrorIs(t, err, ErrStorage)
		assert.ErrorIs(t, err, disk)
		// What is written next is written without it.
		f.set(nil, nil)
		require.NoError(t, j.Put(attachment(3)))
		other, loaded := mustOpen(t, f)
		assert.Equal(t, []*Attachment{attachment(1), attachment(3)}, sorted(loaded.Attachments))
		assert.Empty(t, loaded.Released)
		closeJournal(t, other)
	}
	closeJournal(t, j)
	assert.True(t, f.closed)
}

// A probe writes even if there is nothing to write, and changes nothing.
func TestProbe(t *testing.T) {
	f := newFake()
	j, _ := mustOpen(t, f)
	require.NoError(t, j.Put(attachment(1)))
	disk := errors.New("disk full")
	f.set(disk, nil)
	assert.ErrorIs(t, j.Probe(), disk)
	f.set(nil, nil)
	before := len(f.values)
	require.NoError(t, j.Probe())
	assert.Len(t, f.values, before+1)
	closeJournal(t, j)
	j, loaded := mustOpen(t, f)
	assert.Equal(t, []*Attachment{attachment(1)}, loaded.Attachments)
	assert.Empty(t, loaded.Released)
	closeJournal(t, j)
}

func sorted(as []*Attachment) []*Attachment {
	slices.SortFunc(as, func(a, b *Attachment) int { return cmp.Compare(a.WorkloadID, b.WorkloadID) })
	return as
}

// A storage that hangs fails its callers in time, and what it does after all, when
// they have given up, is taken back.
func TestStorageHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		j, _ := mustOpen(t, f)
		require.NoError(t, j.Put(attachment(1)))

		hang := make(chan struct{})
		f.set(nil, hang)
		begin := time.Now()
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				err := j.Put(attachment(10 + i))
				assert.ErrorIs(t, err, ErrStorage)
				assert.ErrorContains(t, err, "no answer in 10s")
				assert.Equal(t, Timeout, time.Since(begin))
			})
		}
		wg.Wait()
		f.set(nil, nil)
		close(hang)
		synctest.Wait()

		other, loaded := mustOpen(t, f)
		assert.Equal(t, []*Attachment{attachment(1)}, loaded.Attachments)
		require.NoError(t, j.Put(attachment(2)), "it works again")
		closeJournal(t, other)
		closeJournal(t, j)
	})
}

func TestCloseDoesNotWaitForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		j, _ := mustOpen(t, f)
		hang := make(chan struct{})
		f.set(nil, hang)
		go func() { _ = j.Put(attachment(1)) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		assert.ErrorIs(t, j.Close(ctx), context.DeadlineExceeded)
		assert.ErrorContains(t, j.Put(attachment(2)), "closed")
		close(hang)
	})
}

func TestChangesAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		j, _ := mustOpen(t, f)
		hang := make(chan struct{})
		f.set(nil, hang)
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() { assert.NoError(t, j.Put(attachment(i))) })
		}
		synctest.Wait()
		f.set(nil, nil)
		close(hang)
		wg.Wait()
		assert.LessOrEqual(t, f.batches, 3, "one to load, one under way, one for all that came meanwhile")
		closeJournal(t, j)
	})
}

func TestOpenFails(t *testing.T) {
	t.Run("the storage fails", func(t *testing.T) {
		f := newFake()
		f.err = errors.New("locked")
		_, _, err := Open(context.Background(), f, time.Minute)
		assert.ErrorIs(t, err, ErrStorage)
		assert.ErrorIs(t, err, f.err)
	})
	t.Run("a later version wrote it", func(t *testing.T) {
		f := newFake()
		f.values[shardKey(7)] = []byte(`{"version": 2}`)
		_, _, err := Open(context.Background(), f, time.Minute)
		assert.EqualError(t, err, `storage key "attachments/07": written by a later version: it has version 2, known is 1`)
	})
}

func TestOpenDamaged(t *testing.T) {
	f := newFake()
	j, _ := mustOpen(t, f)
	require.NoError(t, j.Put(attachment(1)))
	closeJournal(t, j)
	damaged := map[string]string{
		"attachments/01": ``, "attachments/02": `{`, "attachments/03": `[]`, "attachments/04": `{}`,
		"attachments/05": `{"version":1,"attachments":[null]}`,
		"attachments/06": `{"version":1,"attachments":[{"addresses":["10.0.0.1"]}]}`,
		"attachments/07": `{"version":1,"attachments":[{"id":"a","addresses":[]}]}`,
		"attachments/08": `{"version":1,"attachments":[{"id":"a","addresses":[""]}]}`,
		"attachments/09": `{"version":1,"attachments":[{"id":"a","addresses":["10.0.0.256"]}]}`,
		"attachments/0a": `{"version":1,"released":[{"at":"2026-01-02T03:04:05Z"}]}`,
	}
	for key, value := range damaged {
		f.values[key] = []byte(value)
	}
	j, loaded, err := Open(context.Background(), f, time.Minute)
	require.NoError(t, err)
	assert.Equal(t, []*Attachment{attachment(1)}, loaded.Attachments, "the others are not affected")
	assert.Len(t, loaded.Damaged, len(damaged))
	for key := range damaged {
		assert.Error(t, loaded.Damaged[key], key)
	}
	closeJournal(t, j)
}

func TestPrefixes(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, fileStorage(t, dir))
	assert.Nil(t, j.Prefixes("node-1"))
	want := []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:244:1::/64")}
	require.NoError(t, j.PutPrefixes(t.Context(), "node-1", want))
	closeJournal(t, j)

	j, _ = mustOpen(t, fileStorage(t, dir))
	assert.Equal(t, want, j.Prefixes("node-1"))
	assert.Nil(t, j.Prefixes("node-2"), "they are another node's")
	require.NoError(t, j.PutPrefixes(t.Context(), "node-1", nil))
	closeJournal(t, j)

	j, _ = mustOpen(t, fileStorage(t, dir))
	assert.Nil(t, j.Prefixes("node-1"))
	closeJournal(t, j)
}

func TestPrefixesAreDamaged(t *testing.T) {
	f := newFake()
	f.values[prefixesKey] = []byte(`{"node":"node-1","prefixes":["10.244.1.0/2`)
	j, loaded := mustOpen(t, f)
	assert.Error(t, loaded.DamagedPrefixes)
	assert.Nil(t, j.Prefixes("node-1"))
	closeJournal(t, j)
}

func FuzzDecode(f *testing.F) {
	s := shard{attachments: map[string]*Attachment{"sandbox-1": attachment(1)}, released: []Released{{attachment(2).Addresses, at}}}
	b, err := s.encode(at)
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte(`{"version":1,"attachments":[{"id":"a","addresses":["10.0.0.1"],"at":"9999-01-01T00:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decode(b)
		if err != nil {
			return
		}
		for id, a := range s.attachments {
			if id == "" || id != a.WorkloadID || !valid(a.Addresses) {
				t.Fatalf("a bad attachment was taken: %+v", a)
			}
		}
		again, err := s.encode(time.Time{})
		if err != nil || again == nil {
			return // nothing in it, or a time that JSON can't hold
		}
		if _, err := decode(again); err != nil {
			t.Fatalf("it can't read what it wrote: %v", err)
		}
	})
}

// One change on a node as full as they come, and on one beyond that.
func BenchmarkPut(b *testing.B) {
	for _, n := range []int{250, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			j, _ := mustOpen(b, fileStorage(b, b.TempDir()))
			var wg sync.WaitGroup
			next := make(chan int)
			for range 64 {
				wg.Go(func() {
					for i := range next {
						assert.NoError(b, j.Put(attachment(i)))
					}
				})
			}
			for i := range n {
				next <- i
			}
			close(next)
			wg.Wait()
			a := attachment(1)
			for b.Loop() {
				if err := j.Put(a); err != nil {
					b.Fatal(err)
				}
			}
			closeJournal(b, j)
		})
	}
}
