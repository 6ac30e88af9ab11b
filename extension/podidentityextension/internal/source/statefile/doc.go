// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Package statefile is the source of identities that others keep in files: the
// state of CNI plugins and address managers, and a list of this project's own.
// STATEFILES.md, in the extension's directory, tells users of the formats, their
// usual places, rights and limits.
//
//	fsnotify ─┐
//	poll ─────┼─▶ reader.look ──▶ file or tree ──▶ parse… ──▶ report ──▶ Sink
//	Refresh ──┘   which path,     read what may    pure        merge by owner,
//	              which format    have changed                 times, failures
//
// A look reads all of the state that may have changed, whatever caused it, so
// that a lost notification costs nothing but time. The formats (format.go) are
// of two kinds: one file that holds every pod (file.go), and a directory with a
// file for each pod or interface (tree.go), a leaf.
//
//	azure-vnet   file  Azure/azure-container-networking network/{manager,endpoint}.go
//	azure-cns    file  Azure/azure-container-networking cns/restserver/restserver.go
//	aws-ipamd    file  aws/amazon-vpc-cni-k8s pkg/ipamd/datastore/data_store.go
//	list         file  STATEFILES.md
//	cni-results  tree  containernetworking/cni libcni/api.go
//	host-local   tree  containernetworking/plugins plugins/ipam/host-local/backend/disk/backend.go
//	cilium       tree  cilium/cilium pkg/endpoint/restore.go
//	nerdctl      tree  containerd/nerdctl pkg/dnsutil/hostsstore/hostsstore.go
//
// The format is detected by the content (detectFile) or the layout (detectDir)
// when it is not configured, and by the path when there is nothing in it yet and
// it is a format's usual one.
//
// What is wrong costs as little as it can: an entry of a file costs itself, a
// leaf keeps its own last good answer, a file keeps all of its. The sink hears of
// a failure once it has lasted for settle, because a file that is being written
// is empty first and half-written next. A file that was never there is neither
// an answer nor a failure.
package statefile
