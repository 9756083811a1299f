//go:build tools

// Prometheus' exporter for memcached, at the version in go.mod. This import keeps it in that file
// and go.sum.
package tools

import _ "github.com/prometheus/memcached_exporter/cmd/memcached_exporter"
