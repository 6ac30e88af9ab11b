module github.com/otelcol-retina/otelcol-retina/test/packages

go 1.26.0

replace github.com/otelcol-retina/otelcol-retina/test/k8s => ../k8s

replace github.com/otelcol-retina/otelcol-retina => ../..

require go.yaml.in/yaml/v3 v3.0.6 // indirect

require github.com/stretchr/testify v1.12.1

replace github.com/otelcol-retina/otelcol-retina/test/cri => ../cri
