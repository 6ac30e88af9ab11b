// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package podidentityextension

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"

	"github.com/otelcol-retina/otelcol-retina/pkg/podidentity"
)

// withPage is a started extension whose page listens at an endpoint.
func withPage(t *testing.T, endpoint string, options ...func(*Config)) (*identityExtension, error) {
	cfg := createDefaultConfig().(*Config)
	cfg.Page.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = endpoint
	for _, o := range options {
		o(cfg)
	}
	e, err := newExtension(cfg, componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Shutdown(context.Background())) })
	return e, e.Start(context.Background(), componenttest.NewNopHost())
}

func getPage(t *testing.T, e *identityExtension, host, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+e.page.addr.String()+path, nil)
	require.NoError(t, err)
	req.Host = host
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestPageIsServed(t *testing.T) {
	e, err := withPage(t, "localhost:0")
	require.NoError(t, err)
	require.True(t, e.page.addr.(*net.TCPAddr).IP.IsLoopback())
	require.NoError(t, e.Publish(pod("u1", "web-0")))
	code, body := getPage(t, e, "", "/?q=10.0.0.1")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "web-0")
	code, body = getPage(t, e, "localhost", "/api/identities?name=web-0")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `"10.0.0.1"`)
	code, _ = getPage(t, e, "evil.example", "/api/identities")
	require.Equal(t, http.StatusMisdirectedRequest, code)
}

func TestPageBeyondLoopbackAnswersToAnyName(t *testing.T) {
	e, err := withPage(t, "0.0.0.0:0")
	require.NoError(t, err)
	code, _ := getPage(t, e, "node-1.example", "/")
	require.Equal(t, http.StatusOK, code)
}

func TestPageEndpointInUse(t *testing.T) {
	listener, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	defer listener.Close()
	_, err = withPage(t, listener.Addr().String())
	require.ErrorContains(t, err, `page: listen on "`+listener.Addr().String()+`"`)
}

func TestPageTellsSources(t *testing.T) {
	r := newRig(t, time.Hour)
	r.a.sink.Replace([]podidentity.Record{pod("u1", "web-0")}, time.Now())
	r.b.sink.Failed(errors.New("socket is gone"))
	s := r.sourceStates()
	require.Equal(t, "scriptedb", s[0].Name)
	require.False(t, s[0].Up)
	require.Equal(t, "socket is gone", s[0].Failure)
	require.EqualValues(t, 1, s[0].Failures)
	require.Negative(t, s[0].Age)
	require.True(t, s[1].Unused, "push")
	require.Equal(t, "scripteda", s[2].Name)
	require.True(t, s[2].Up)
	require.GreaterOrEqual(t, s[2].Age, time.Duration(0))
	require.NoError(t, r.Publish(pod("u2", "web-1")))
	require.False(t, r.sourceStates()[1].Unused)
	require.True(t, r.sourceStates()[1].Up)
}
