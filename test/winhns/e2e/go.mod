module github.com/otelcol-retina/otelcol-retina/test/winhns/e2e

go 1.26.0

replace github.com/otelcol-retina/otelcol-retina => ../../..

require (
	github.com/otelcol-retina/otelcol-retina v0.0.0-00010101000000-000000000000
	github.com/prometheus/common v0.74.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/otelcol-retina/otelcol-retina/test/testkit v0.0.0
	github.com/pandatix/go-abnf v0.5.5 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/otelcol-retina/otelcol-retina/test/testkit => ../../testkit
