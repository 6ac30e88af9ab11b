// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package saved

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func thisBoot(t testing.TB) string {
	boot, err := Boot()
	require.NoError(t, err)
	return boot
}

func web(i int) Record {
	return Record{Source: "cri", Record: podidentity.Record{
		Owner: fmt.Sprintf("s%d", i), Sandbox: fmt.Sprintf("s%d", i), NetNS: 4026532001, HNSEndpoints: []string{"3ead1b4e-6b22-4c4f-9b0d-0d0b7b2f9f01"},
		Identity:  podidentity.Identity{Name: "web", Namespace: "shop", UID: "u", Labels: map[string]string{"app": "<b>\n"}, Annotations: map[string]string{"a": "b"}},
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
		Begin:     at.Add(-time.Hour),
	}}
}

func TestRoundTrip(t *testing.T) {
	restored := web(2)
	restored.Source, restored.Sure = "push", at.Add(-time.Minute)
	want := []Record{web(1), restored, {Source: "k8s", Record: podidentity.Record{Owner: "u3", Identity: podidentity.Identity{Name: "x", UID: "u3"}}}}
	b, left, err := Encode(slices.Values(want), thisBoot(t), at)
	require.NoError(t, err)
	require.Zero(t, left)
	have, err := Decode(b, thisBoot(t))
	require.NoError(t, err)
	want[0].Sure, want[2].Sure = at, at
	require.Equal(t, want, have)
}

func TestSizeIsBounded(t *testing.T) {
	var all []Record
	for i := range 5000 {
		all = append(all, web(i))
	}
	b, left, err := encode(slices.Values(all), thisBoot(t), at, 4<<10)
	require.NoError(t, err)
	require.Positive(t, left)
	require.Less(t, len(b), 128<<10) // what gzip had in hand comes on top
	have, err := Decode(b, thisBoot(t))
	require.NoError(t, err)
	require.Len(t, have, len(all)-left)
}

func TestOtherBoot(t *testing.T) {
	b, _, err := Encode(slices.Values([]Record{web(1)}), thisBoot(t), at)
	require.NoError(t, err)
	_, err = Decode(b, "2020-01-01T00:00:00Z")
	require.ErrorIs(t, err, ErrOtherBoot)
	b, _, err = Encode(slices.Values([]Record{web(1)}), "", at)
	require.NoError(t, err)
	_, err = Decode(b, "")
	require.ErrorIs(t, err, ErrOtherBoot, "an unknown boot is no boot")
}

func zipped(text string) []byte {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	zip.Write([]byte(text))
	zip.Close()
	return b.Bytes()
}

func TestDamaged(t *testing.T) {
	good, _, err := Encode(slices.Values([]Record{web(1), web(2)}), thisBoot(t), at)
	require.NoError(t, err)
	flipped := slices.Clone(good)
	flipped[len(flipped)/2] ^= 0x10
	head := fmt.Sprintf(`{"version":1,"boot":%q,"at":"2026-01-02T03:04:05Z"}`, thisBoot(t))
	for name, tt := range map[string]struct {
		b    []byte
		says string
	}{
		"empty":           {nil, "EOF"},
		"no gzip":         {[]byte("not what it was"), "gzip: invalid header"},
		"cut short":       {good[:len(good)-20], "unexpected EOF"},
		"a bit flipped":   {flipped, ""},
		"no JSON":         {zipped("hello"), "header"},
		"another version": {zipped(strings.Replace(head, "1", "2", 1)), "has version 2, this is version 1"},
		"no time":         {zipped(`{"version":1}`), "has no time"},
		"no owner":        {zipped(head + `{"source":"cri"}`), "record 1: has no owner"},
		"a bad address":   {zipped(head + `{"source":"cri","owner":"o","addresses":["10.0.0"]}`), "record 1"},
	} {
		t.Run(name, func(t *testing.T) {
			records, err := Decode(tt.b, thisBoot(t))
			require.ErrorIs(t, err, ErrDamaged)
			require.ErrorContains(t, err, tt.says)
			require.Empty(t, records)
		})
	}
}

func FuzzDecode(f *testing.F) {
	good, _, err := Encode(slices.Values([]Record{web(1)}), thisBoot(f), at)
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte{})
	f.Add(zipped(`{"version":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		records, err := Decode(b, thisBoot(t))
		if err != nil {
			require.Empty(t, records)
		}
		for _, r := range records {
			require.NotEmpty(t, r.Record.Owner)
			require.False(t, r.Sure.IsZero())
		}
	})
}

// Writing all that is known of 10,000 pods.
func BenchmarkEncode(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	var all []Record
	for i := range 10_000 {
		r := web(i)
		id := fmt.Sprintf("%016x%016x%016x%016x", rng.Uint64(), rng.Uint64(), rng.Uint64(), rng.Uint64())
		r.Record.Owner, r.Record.Sandbox, r.Record.NetNS = id, id, r.Record.NetNS+uint64(i)
		r.Record.HNSEndpoints = nil
		r.Record.Identity.Name = fmt.Sprintf("web-%010x-%05x", rng.Uint64()>>24, rng.Uint64()>>44)
		r.Record.Identity.UID = fmt.Sprintf("%08x-0000-4000-8000-%012x", rng.Uint32(), rng.Uint64()>>16)
		r.Record.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), netip.MustParseAddr(fmt.Sprintf("fd00::%x", i))}
		all = append(all, r)
	}
	b.ReportAllocs()
	var size int
	for b.Loop() {
		out, _, err := Encode(slices.Values(all), "boot", at)
		require.NoError(b, err)
		size = len(out)
	}
	b.ReportMetric(float64(size)/float64(len(all)), "B/pod")
}
