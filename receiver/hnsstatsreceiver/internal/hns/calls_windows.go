// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/Microsoft/go-winio/pkg/guid"
	"github.com/Microsoft/hcsshim"
	"github.com/Microsoft/hcsshim/hcn"
	"golang.org/x/sys/windows"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// hcnCalls makes the calls of hcn.ListEndpointsQuery one by one, and leaves
// everything else to hcsshim. The list of hcsshim v0.14.1 can't be used in a
// process that lives long: it keeps the handle of an endpoint whose properties it
// fails to read (hcn.getEndpoint), one endpoint that vanishes makes the whole list
// fail, and one that hangs makes it hang.
type hcnCalls struct {
	dll, vmcompute         *windows.LazyDLL
	list, open, query, end *windows.LazyProc
	hnsCall                *windows.LazyProc
}

func newCalls() *hcnCalls {
	dll := windows.NewLazySystemDLL("computenetwork.dll")
	vmcompute := windows.NewLazySystemDLL("vmcompute.dll")
	return &hcnCalls{
		dll:       dll,
		list:      dll.NewProc("HcnEnumerateEndpoints"),
		open:      dll.NewProc("HcnOpenEndpoint"),
		query:     dll.NewProc("HcnQueryEndpointProperties"),
		end:       dll.NewProc("HcnCloseEndpoint"),
		vmcompute: vmcompute,
		hnsCall:   vmcompute.NewProc("HNSCall"),
	}
}

// available asks for what can't be done without. Without HCN there is the older
// list.
func (c *hcnCalls) available() error { return find(c.vmcompute, c.hnsCall) }

// find loads DLLs' exports; the error of a DLL that isn't there doesn't name it.
func find(dll *windows.LazyDLL, procs ...*windows.LazyProc) error {
	if err := dll.Load(); err != nil {
		return fmt.Errorf("load %s: %w", dll.Name, err)
	}
	for _, p := range procs {
		if err := p.Find(); err != nil {
			return err
		}
	}
	return nil
}

// Queries are in version 2.0 of HCN's schema, as hcn.defaultQuery has them.
var (
	queryAll   = utf16Of(`{"SchemaVersion":{"Major":2,"Minor":0}}`)
	queryState = map[endpointState]*uint16{
		attached:        utf16Of(`{"SchemaVersion":{"Major":2,"Minor":0},"Filter":"{\"State\":2}"}`),
		attachedSharing: utf16Of(`{"SchemaVersion":{"Major":2,"Minor":0},"Filter":"{\"State\":3}"}`),
	}
)

func utf16Of(s string) *uint16 { return &append(utf16.Encode([]rune(s)), 0)[0] }

func (c *hcnCalls) enumerate(state endpointState, buf []byte) ([]byte, error) {
	if err := find(c.dll, c.list); err != nil {
		return buf, err
	}
	var out, record *uint16
	hr, _, _ := syscall.SyscallN(c.list.Addr(), uintptr(unsafe.Pointer(queryState[state])),
		uintptr(unsafe.Pointer(&out)), uintptr(unsafe.Pointer(&record)))
	return takeAnswer("HcnEnumerateEndpoints", hr, buf, out, record)
}

func (c *hcnCalls) properties(id string, buf []byte) (_ []byte, err error) {
	if err := find(c.dll, c.open, c.query, c.end); err != nil {
		return buf, err
	}
	g, err := guid.FromString(id)
	if err != nil {
		return buf, err
	}
	var (
		handle      uintptr
		out, record *uint16
	)
	hr, _, _ := syscall.SyscallN(c.open.Addr(), uintptr(unsafe.Pointer(&g)),
		uintptr(unsafe.Pointer(&handle)), uintptr(unsafe.Pointer(&record)))
	if _, err := takeAnswer("HcnOpenEndpoint", hr, nil, nil, record); err != nil {
		return buf, err
	}
	defer func() {
		if hr, _, _ := syscall.SyscallN(c.end.Addr(), handle); int32(hr) < 0 && err == nil {
			err = fmt.Errorf("HcnCloseEndpoint: %w", hresult(hr))
		}
	}()
	record = nil
	hr, _, _ = syscall.SyscallN(c.query.Addr(), handle, uintptr(unsafe.Pointer(queryAll)),
		uintptr(unsafe.Pointer(&out)), uintptr(unsafe.Pointer(&record)))
	return takeAnswer("HcnQueryEndpointProperties", hr, buf, out, record)
}

// takeAnswer appends what a call answered to buf, and frees what it returned. Like
// hcn.checkForErrors it takes an error record for a failure even when the code is
// a success.
func takeAnswer(call string, hr uintptr, buf []byte, out, record *uint16) ([]byte, error) {
	defer windows.CoTaskMemFree(unsafe.Pointer(out))
	defer windows.CoTaskMemFree(unsafe.Pointer(record))
	var said string
	if record != nil {
		said = strings.Join(strings.Fields(string(appendUTF16(nil, record))), " ")
	}
	switch {
	case int32(hr) < 0 && said != "":
		return buf, fmt.Errorf("%s: %w: %s", call, hresult(hr), said)
	case int32(hr) < 0:
		return buf, fmt.Errorf("%s: %w", call, hresult(hr))
	case said != "":
		return buf, fmt.Errorf("%s: %s", call, said)
	}
	return appendUTF16(buf, out), nil
}

// appendUTF16 appends a string that ends in a zero to buf, as UTF-8.
func appendUTF16(buf []byte, p *uint16) []byte {
	for p != nil && *p != 0 {
		r := rune(*p)
		p = (*uint16)(unsafe.Add(unsafe.Pointer(p), 2))
		if utf16.IsSurrogate(r) {
			if r = utf16.DecodeRune(r, rune(*p)); r != utf8.RuneError {
				p = (*uint16)(unsafe.Add(unsafe.Pointer(p), 2))
			}
		}
		buf = utf8.AppendRune(buf, r)
	}
	return buf
}

func (*hcnCalls) statistics(id string) (statistics, error) {
	s, err := hcsshim.GetHNSEndpointStats(id)
	if err != nil {
		return statistics{}, withCode(err)
	}
	return statistics{
		endpoint: s.EndpointID,
		bytes:    [endpoint.NumDirections]uint64{endpoint.Receive: s.BytesReceived, endpoint.Transmit: s.BytesSent},
		packets:  [endpoint.NumDirections]uint64{endpoint.Receive: s.PacketsReceived, endpoint.Transmit: s.PacketsSent},
		dropped:  [endpoint.NumDirections]uint64{endpoint.Receive: s.DroppedPacketsIncoming, endpoint.Transmit: s.DroppedPacketsOutgoing},
	}, nil
}

func (*hcnCalls) endpointsV1() ([]endpointV1, error) {
	list, err := hcsshim.HNSListEndpointRequest()
	if err != nil {
		return nil, withCode(err)
	}
	if list == nil {
		return nil, nil
	}
	out := make([]endpointV1, 0, len(list))
	for i := range list {
		e := &list[i]
		v := endpointV1{
			id: e.Id, name: e.Name, mac: e.MacAddress,
			containers: e.SharedContainers,
			state:      endpointState(e.State),
			remote:     e.IsRemoteEndpoint,
		}
		if e.Namespace != nil {
			v.namespace = e.Namespace.ID
		}
		for _, ip := range []net.IP{e.IPAddress, e.IPv6Address} {
			if a, ok := netip.AddrFromSlice(ip); ok {
				v.addresses = append(v.addresses, a)
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// withCode gives an error of hcsshim its code, which it tells in its text only.
func withCode(err error) error {
	hcsError := (&hcn.HcnError{}).HcsError // its type is internal
	var errno syscall.Errno
	if errors.As(err, &hcsError) && errors.As(hcsError.Err, &errno) {
		return fmt.Errorf("HNSCall: %w", win32(uint32(errno)))
	}
	return err
}

// win32 turns the code that hcsshim makes of an HRESULT with a Win32 code back
// into the HRESULT (hcsshim, interop.Win32FromHresult).
func win32(code uint32) hresult {
	if code != 0 && code <= 0xffff {
		return hresult(0x80070000 | code)
	}
	return hresult(code)
}
