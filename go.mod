module github.com/otelcol-retina/otelcol-retina

go 1.26.0
