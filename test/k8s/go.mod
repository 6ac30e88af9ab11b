module github.com/otelcol-retina/otelcol-retina/test/k8s

go 1.26.0
