// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package veth

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Step is one thing asked of the kernel.
type Step uint8

// The steps of Create, in their order, and those of the other calls.
const (
	StepOpen Step = iota
	StepEnter
	StepPair
	StepFind
	StepAddrGen
	StepIgnoreRA
	StepGatewayV4
	StepGatewayV6
	StepAddress
	StepLoopback
	StepPodUp
	StepHostUp
	StepPodRoutes
	StepHostRoutes
	StepReady
	StepMark
	StepDoom
	StepDelete
	StepList
	StepRestore

	// NumCreateSteps is how many steps Create takes.
	NumCreateSteps = StepMark
)

var stepNames = map[Step]string{
	StepOpen: "open netlink", StepEnter: "enter the namespace", StepPair: "create the veth pair",
	StepFind: "find the pair's end in the namespace", StepAddrGen: "stop address generation on the node's end",
	StepIgnoreRA:  "have the node's end ignore router advertisements",
	StepGatewayV4: "give the node's end its IPv4 address", StepGatewayV6: "give the node's end its IPv6 address",
	StepAddress: "give the interface its addresses", StepLoopback: "bring up lo in the namespace",
	StepPodUp: "bring up the interface", StepHostUp: "bring up the node's end",
	StepReady: "wait for the link to be usable", StepPodRoutes: "add the namespace's routes", StepHostRoutes: "add the node's routes",
	StepMark: "mark the link", StepDoom: "take down the link", StepDelete: "delete the link",
	StepList: "list the links", StepRestore: "restore the node's routes",
}

func (s Step) String() string { return stepNames[s] }

// Error is a step that failed.
type Error struct {
	Step Step
	// Capability is what the process lacks, if that is why.
	Capability string
	Err        error
}

func (e *Error) Error() string {
	if e.Capability != "" {
		return fmt.Sprintf("%s: %v: the collector needs %s", e.Step, e.Err, e.Capability)
	}
	return fmt.Sprintf("%s: %v", e.Step, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// run does one step, unless ctx is done or a test fails it.
func (n Network) run(ctx context.Context, step Step, f func() error) error {
	err := context.Cause(ctx)
	if err == nil && n.Fault != nil {
		err = n.Fault(step)
	}
	if err == nil {
		err = f()
	}
	if err == nil {
		return nil
	}
	e := &Error{Step: step, Err: err}
	if errors.Is(err, unix.EPERM) {
		e.Capability = "CAP_NET_ADMIN"
		if step == StepEnter {
			e.Capability = "CAP_SYS_ADMIN" // setns(2)
		}
	}
	return e
}
