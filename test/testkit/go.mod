module github.com/otelcol-retina/otelcol-retina/test/testkit

go 1.26.0
