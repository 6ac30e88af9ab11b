// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// awsIPAMDVersion is the only version written so far.
const awsIPAMDVersion = "vpc-cni-ipam/1"

// parseAWSIPAMD reads the checkpoint of the Amazon VPC CNI's address manager
// (ipam.json). Defined in aws/amazon-vpc-cni-k8s:
// pkg/ipamd/datastore/data_store.go (CheckpointData, CheckpointEntry, IPAMKey,
// IPAMMetadata).
func parseAWSIPAMD(b []byte) (answer, error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(b, &file); err != nil {
		return answer{}, err
	}
	raw, ok := field(file, "allocations")
	if !ok {
		return answer{}, errors.New(`has no "allocations" list, so it is not the checkpoint of the Amazon VPC CNI`)
	}
	if v, ok := field(file, "version"); ok && string(v) != `"`+awsIPAMDVersion+`"` {
		return answer{}, fmt.Errorf("version is %s; only %q is known", clip(string(v)), awsIPAMDVersion)
	}
	var allocations []json.RawMessage
	if err := json.Unmarshal(raw, &allocations); err != nil {
		return answer{}, fmt.Errorf("allocations: %w", err)
	}
	var a answer
	for i, raw := range allocations {
		p, err := parseAWSAllocation(raw)
		if err != nil {
			a.leaveOut(fmt.Errorf("allocation %d: %w", i, err))
			continue
		}
		a.pods = append(a.pods, p)
	}
	return a, nil
}

func parseAWSAllocation(raw json.RawMessage) (pod, error) {
	var e struct {
		ContainerID         string
		IPv4                string
		IPv6                string
		AllocationTimestamp int64 // nanoseconds
		Metadata            struct {
			K8sPodNamespace string
			K8sPodName      string
		}
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return pod{}, err
	}
	p := pod{Record: sandboxRecord(e.ContainerID)}
	p.setIdentity(e.Metadata.K8sPodName, e.Metadata.K8sPodNamespace)
	if e.AllocationTimestamp > 0 {
		p.Begin = time.Unix(0, e.AllocationTimestamp)
	}
	if err := errors.Join(p.addAddress(e.IPv4), p.addAddress(e.IPv6)); err != nil {
		return pod{}, err
	}
	return p, p.check()
}

// sandboxRecord is a record whose owner is a container.
func sandboxRecord(id string) podidentity.Record { return podidentity.Record{Sandbox: id} }
