// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// servePage has the page that a collector in another network namespace serves on
// a unix socket be where the collector's page is otherwise.
func servePage(socket string) (stop func() error, err error) {
	page, err := url.Parse(metricsURL)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", page.Host)
	if err != nil {
		return nil, err
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: page.Scheme, Host: page.Host})
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	proxy.ErrorLog = log.New(io.Discard, "", 0) // the collector takes a moment to listen
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }()
	return server.Close, nil
}
