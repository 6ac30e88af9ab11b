// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package veth

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
)

// EnableForwarding has the node forward packets of the families that prefixes
// have, and returns the settings it changed, such as "net.ipv4.ip_forward=1".
func EnableForwarding(prefixes []netip.Prefix) (changed []string, err error) {
	var c changes
	for _, family := range []struct {
		is4        bool
		forwarding sysctl
		before     func() error
	}{
		{true, "net/ipv4/ip_forward", func() error { return nil }},
		{false, "net/ipv6/conf/all/forwarding", c.keepAdvertisements},
	} {
		if !has(prefixes, family.is4) {
			continue
		}
		if err := c.enable(family.forwarding, family.before); err != nil {
			return c, fmt.Errorf("set %s=1, so that the node forwards the workloads' packets: %w", family.forwarding, err)
		}
	}
	return c, nil
}

func has(prefixes []netip.Prefix, is4 bool) bool {
	for _, p := range prefixes {
		if p.Addr().Is4() == is4 {
			return true
		}
	}
	return false
}

// changes are settings that were changed, each with its value.
type changes []string

// enable switches forwarding on, unless it is, and calls before if so.
func (c *changes) enable(forwarding sysctl, before func() error) error {
	is, err := forwarding.get()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the kernel lacks this family, configure no prefix of it", err)
	}
	if is == "1" || err != nil {
		return err
	}
	if err := before(); err != nil {
		return err
	}
	return c.set(forwarding, "1")
}

// keepAdvertisements has the interfaces that heed router advertisements do so on a
// node that forwards, too. With accept_ra=1 the kernel would ignore them, and
// delete the default routes that it has from them the moment that forwarding is
// switched on: rt6_purge_dflt_routers in net/ipv6/route.c.
//
// Our own links are left alone, and so is conf/default, where links that are made
// later have their settings from: no workload shall become the node's router.
func (c *changes) keepAdvertisements() error {
	names, err := Network{}.foreignLinks()
	if err != nil {
		return err
	}
	for _, name := range names {
		err := c.keepAdvertisementsOn("net/ipv6/conf/" + sysctl(name))
		// Some interfaces have no IPv6, and some have just been deleted.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keep the default routes of %s: %w", name, err)
		}
	}
	return nil
}

func (c *changes) keepAdvertisementsOn(conf sysctl) error {
	heeds, always, err := conf.heedsAdvertisements()
	if !heeds || always || err != nil {
		return err
	}
	return c.set(conf+"/accept_ra", "2")
}

// foreignLinks are the names of all links but ours and lo.
func (n Network) foreignLinks() (names []string, err error) {
	err = n.withHandle(StepList, func(h *netlink.Handle) error {
		links, err := dump(h.LinkList)
		for _, link := range links {
			if _, ours := classify(link); !ours && link.Attrs().Flags&net.FlagLoopback == 0 {
				names = append(names, link.Attrs().Name)
			}
		}
		return err
	})
	return names, err
}

// set is only called for settings that are not so yet: a container's /proc/sys is
// often read-only, with the settings made by its host.
func (c *changes) set(s sysctl, value string) error {
	if err := s.set(value); err != nil {
		return err
	}
	*c = append(*c, s.String()+"="+value)
	return nil
}

// sysctl is a setting of the kernel's: its path in /proc/sys.
type sysctl string

// String is its name as sysctl(8) has it.
func (s sysctl) String() string { return strings.NewReplacer("/", ".", ".", "/").Replace(string(s)) }

func (s sysctl) path() string { return "/proc/sys/" + string(s) }

func (s sysctl) get() (string, error) {
	b, err := os.ReadFile(s.path())
	return string(bytes.TrimSpace(b)), err
}

func (s sysctl) set(value string) error { return os.WriteFile(s.path(), []byte(value), 0) }

// heedsAdvertisements says whether the interface that has its settings in s heeds
// router advertisements now, and whether it does so when it forwards.
func (s sysctl) heedsAdvertisements() (now, always bool, err error) {
	accept, err := (s + "/accept_ra").get()
	if err != nil {
		return false, false, err
	}
	forwarding, err := (s + "/forwarding").get()
	always = accept == "2"
	return always || accept == "1" && forwarding == "0", always, err
}
