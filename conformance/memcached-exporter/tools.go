//go:build tools

// Prometheus' exporter for memcached, at the version in go.mod: what is imported here is what that
// file and go.sum are kept for.
package tools

import _ "github.com/prometheus/memcached_exporter/cmd/memcached_exporter"
