// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package netlinkstats

// What golang.org/x/sys/unix lacks of the kernel's user interface.
const (
	rtextFilterSkipStats = 1 << 3 // RTEXT_FILTER_SKIP_STATS, linux/rtnetlink.h

	netnsaNSID = 1 // NETNSA_NSID, linux/net_namespace.h
	netnsaPID  = 2 // NETNSA_PID
	netnsaFD   = 3 // NETNSA_FD

	sizeofRtGenMsg   = 4  // struct rtgenmsg, linux/rtnetlink.h, padded to NLMSG_ALIGNTO
	sizeofIfStatsMsg = 12 // struct if_stats_msg, linux/if_link.h

	// The first eight fields of struct rtnl_link_stats64 (linux/if_link.h), all
	// that is read of it. Kernels have added fields behind them, never before.
	sizeofCounters = 8 * 8

	attrTypeMask = 1<<14 - 1 // NLA_TYPE_MASK, linux/netlink.h
)

// noNSID is NETNSA_NSID_NOT_ASSIGNED (linux/net_namespace.h): a namespace that
// has no id here.
const noNSID = -1
