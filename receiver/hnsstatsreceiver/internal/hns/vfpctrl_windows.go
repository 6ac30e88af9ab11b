// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// killPatience is how long the pipe that a killed vfpctrl.exe printed to may stay
// open.
const killPatience = 500 * time.Millisecond

var ntResumeProcess = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess")

// exe is a program that is run without a shell, in a job of its own.
type exe struct{ path string }

func newVFPCtrl() (exe, error) {
	dir, err := windows.GetSystemDirectory()
	if err != nil {
		return exe{}, fmt.Errorf("find the system directory: %w", err)
	}
	return exe{filepath.Join(dir, "vfpctrl.exe")}, nil
}

func (e exe) run(ctx context.Context, limit int, args ...string) ([]byte, error) {
	group, err := newKillGroup()
	if err != nil {
		return nil, err
	}
	defer group.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &boundedBuffer{limit: limit, exceeded: cancel}
	cmd := exec.CommandContext(ctx, e.path, args...)
	cmd.Stdout, cmd.Stderr = out, out
	// It begins suspended, so that it has no child before it is in the job.
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NO_WINDOW}
	// A child that outlives it may hold the pipe until both are killed.
	cmd.WaitDelay = killPatience
	if deadline, ok := ctx.Deadline(); ok {
		cmd.WaitDelay += time.Until(deadline)
	}
	cmd.Cancel = func() error { return errors.Join(group.kill(), cmd.Process.Kill()) }
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", e.path, err)
	}
	if err := group.take(cmd.Process); err != nil && ctx.Err() == nil { // else it is dead already
		cancel()
		return nil, errors.Join(fmt.Errorf("put %s into a job: %w", e.path, err), cmd.Wait())
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case out.full:
		return nil, fmt.Errorf("vfpctrl printed more than %d bytes and was killed", limit)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &exit):
		return nil, &exitError{code: exit.ExitCode(), said: excerpt(decodeText(out.b))}
	case err != nil:
		return nil, fmt.Errorf("run %s: %w", e.path, err)
	}
	return out.b, nil
}

// boundedBuffer keeps what is written up to a limit.
type boundedBuffer struct {
	b        []byte
	limit    int
	full     bool
	exceeded func()
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if len(b.b)+len(p) > b.limit {
		b.full = true
		b.exceeded()
		return 0, errors.New("too much output")
	}
	b.b = append(b.b, p...)
	return len(p), nil
}

// killGroup is a job object: a process in it and all its children can be killed
// together, and are when it is closed.
type killGroup struct{ job windows.Handle }

func newKillGroup() (killGroup, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return killGroup{}, fmt.Errorf("create a job for vfpctrl: %w", err)
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info))); err != nil {
		_ = windows.CloseHandle(job)
		return killGroup{}, fmt.Errorf("limit the job of vfpctrl: %w", err)
	}
	return killGroup{job}, nil
}

// take puts a suspended process into the group and lets it run.
func (g killGroup) take(p *os.Process) error {
	var err error
	if errHandle := p.WithHandle(func(h uintptr) {
		if err = windows.AssignProcessToJobObject(g.job, windows.Handle(h)); err != nil {
			return
		}
		if status, _, _ := ntResumeProcess.Call(h); status != 0 {
			err = windows.NTStatus(status)
		}
	}); errHandle != nil {
		return errHandle
	}
	return err
}

func (g killGroup) kill() error { return windows.TerminateJobObject(g.job, 1) }

func (g killGroup) close() { _ = windows.CloseHandle(g.job) }
