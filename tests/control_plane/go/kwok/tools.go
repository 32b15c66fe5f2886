//go:build tools

// Package kwok pins the simulator of nodes. It is a module of its own: it needs a newer k8s.io/cri-client.
package kwok

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
